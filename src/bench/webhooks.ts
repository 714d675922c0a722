/** @module Webhooks: a service starts with many undelivered events for one webhook. */
import { join } from 'node:path'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { createWebhook } from '#features/webhooks/webhooks/manage/change.ts'
import type { Benchmark, Values } from './measure.ts'
import { readUsage, startService } from './processes.ts'
import { RECEIVER_HOST, type Receiver, startReceiver } from './receiver.ts'

/** @param events number of events, each of an email of its own */
export const createWebhookBenchmark = (events: number): Benchmark => ({
  name: 'webhooks',
  description: `${events} waiting events delivered to one webhook over TLS, none lost; with the start of the service.`,
  figures: [
    ['told_per_second', 'events delivered/s, one webhook', 0],
    ['told_cpu_ms', '  CPU ms per event', 3],
    ['peak_rss_mib', 'peak RSS MiB', 0],
  ],
  async prepare({ folder, seed, onCopy }, resources) {
    const receiver = resources.use(await startReceiver())
    const certFile = join(folder, 'receiver.pem')
    await Bun.write(certFile, receiver.certificate)
    const { dataDir } = await seed('webhooks', {
      emails: events,
      async before(app, account) {
        const url = `https://${RECEIVER_HOST}:${receiver.httpsPort}/hook`
        // Each email has one of both.
        await createWebhook(app, toOperatorActor(account), { url, events: ['sent', 'bounced'] })
      },
    })
    return [{ title: 'runs', run: () => onCopy(dataDir, (copy) => runWebhook(receiver, certFile, events, copy)) }]
  },
})

/** Measures one run. CPU time is that of the service only: user and system, all threads, including its start. */
async function runWebhook(receiver: Receiver, certFile: string, events: number, dataDir: string): Promise<Values> {
  await using service = await startService(dataDir, {
    TASSIS_DNS_SERVERS: `127.0.0.1:${receiver.dnsPort}`,
    TASSIS_EXTRA_CA_FILE: certFile,
  })
  const { seconds } = await receiver.waitFor({ events })
  const { cpuMs, peakRssMiB } = readUsage(service.pid)
  return { told_per_second: events / seconds, told_cpu_ms: cpuMs / events, peak_rss_mib: peakRssMiB }
}
