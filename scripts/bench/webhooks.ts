/** @module Webhooks: a service starts with many undelivered events for one webhook. */
import { join } from 'node:path'
import type { Benchmark, Values } from '#bench/measure.ts'
import { readUsage, startService } from '#bench/processes.ts'
import { startReceiver } from '#bench/receiver.ts'
import { toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { createWebhook } from '#features/webhooks/webhooks/manage/change.ts'
import { startHooks } from './hooks.ts'
import { storeEmails } from './stored-emails.ts'

/** @param events number of events, each of an email of its own */
export const createWebhookBenchmark = (events: number): Benchmark => ({
  name: 'webhooks',
  description: `${events} waiting events delivered to one webhook over TLS, none lost; with the start of the service.`,
  figures: [
    ['told_per_second', 'events delivered/s, one webhook', 0],
    ['told_cpu_ms', '  CPU ms per event', 3],
    ['peak_rss_mib', 'peak RSS MiB', 0],
  ],
  async prepare({ folder, create, onCopy }, resources) {
    const certFile = join(folder, 'receiver.pem')
    const hooks = resources.use(await startHooks(certFile))
    const { dnsPort } = resources.use(await startReceiver())
    const { dataDir } = await create('webhooks', async (app, account, domainId) => {
      // Each email has one of both.
      await createWebhook(app, toOperatorActor(account), { url: hooks.url, events: ['sent', 'bounced'] })
      await storeEmails({ emails: events })(app, account, domainId)
    })
    const run = async (copy: string): Promise<Values> => {
      await using service = await startService(copy, {
        TASSIS_DNS_SERVERS: `127.0.0.1:${dnsPort}`,
        TASSIS_EXTRA_CA_FILE: certFile,
      })
      const { seconds } = await hooks.waitFor(events)
      // Including the start of the service.
      const { cpuMs, peakRssMiB } = readUsage(service.pid)
      return { told_per_second: events / seconds, told_cpu_ms: cpuMs / events, peak_rss_mib: peakRssMiB }
    }
    return [{ title: 'runs', run: () => onCopy(dataDir, run) }]
  },
})
