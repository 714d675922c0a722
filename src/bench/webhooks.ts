/**
 * @module The webhook benchmark: a service starts with many undelivered events for one webhook; then the redirect of
 * tracked links is measured on an otherwise idle service.
 */
import { join } from 'node:path'
import { CommandError } from '#app/cli/admin-command.ts'
import { openApp } from '#app/create.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { accountTag, createLinkUrl, dayOf } from '#features/sending/tracking/tokens.ts'
import { createWebhook } from '#features/webhooks/webhooks/change.ts'
import { systemClock } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { HOOK_HOST, type HookCount } from './hook-receiver.ts'
import type { GetJob, LoadResult } from './load.ts'
import { type ChildProcess, readUsage, spawnSelf, startService } from './processes.ts'
import { seedDataDirectory } from './seed.ts'

/** Hidden commands for child processes of the benchmark. */
export const HOOK_RECEIVER_COMMAND = 'bench-hook-receiver'
export const GET_COMMAND = 'bench-get'

/** Results of a run. CPU time is that of the service only: user and system, all threads, including its start. */
export interface WebhookStats {
  readonly toldPerSecond: number
  /** CPU time to deliver one event. */
  readonly toldCpuMs: number
  readonly redirectP50Ms: number
  readonly redirectP99Ms: number
  readonly peakRssMiB: number
}

export const WEBHOOK_STAT_NAMES = [
  'toldPerSecond',
  'toldCpuMs',
  'redirectP50Ms',
  'redirectP99Ms',
  'peakRssMiB',
] as const satisfies readonly (keyof WebhookStats)[]

const REDIRECT_COUNT = 5000
/** Few, to measure the response and not a queue before it. */
const REDIRECT_CONNECTIONS = 4
const LINK_TARGET = 'https://shop.example/orders/4711?from=email&utm_source=bench'
const MAX_SECONDS = 600

export interface WebhookFixture extends AsyncDisposable {
  readonly dataDir: string
  readonly receiver: ChildProcess
  readonly dnsPort: number
  readonly certFile: string
  readonly events: number
  /** Paths of tracked links, each of a different recipient. */
  readonly paths: readonly string[]
}

/** Creates the data directory and starts the endpoint. @param folder for data directory and certificate */
export async function prepareWebhook(folder: string, config: Config, events: number): Promise<WebhookFixture> {
  const certificate = makeCertificate(folder)
  const receiver = spawnSelf([HOOK_RECEIVER_COMMAND, certificate.certFile, certificate.keyFile])
  const ports = JSON.parse(await receiver.readLine()) as { port: number; dnsPort: number }
  await seedDataDirectory(config, events, async (app, account) => {
    const url = `https://${HOOK_HOST}:${ports.port}/hook`
    await createWebhook(app, toOperatorActor(account), { url, events: ['sent'] })
  })
  return {
    dataDir: config.dataDir,
    receiver,
    dnsPort: ports.dnsPort,
    certFile: certificate.certFile,
    events,
    paths: await listLinks(config),
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  }
}

/** Lists paths of tracked links, each of a different recipient of the seeded emails. */
export async function listLinks(config: Config): Promise<string[]> {
  const opened = openApp(config)
  try {
    const { db, keys } = opened.app
    const sent = db.query<{ uuid: Uint8Array; recipientId: number; at: number }, [number]>(
      `SELECT accounts.uuid AS uuid, recipients.id AS recipientId, emails.created_at AS at FROM recipients JOIN emails ON emails.id = email_id
       JOIN accounts ON accounts.id = account_id ORDER BY recipients.id LIMIT ?`,
    )
    return sent
      .all(REDIRECT_COUNT)
      .map(({ uuid, recipientId, at }) =>
        createLinkUrl(
          keys.subkey('tracking'),
          '',
          { account: accountTag(uuid), recipientId, day: dayOf(at) },
          LINK_TARGET,
        ),
      )
  } finally {
    await opened.close()
  }
}

/** Measures one run against a copy of the data directory. */
export async function runWebhook(fixture: WebhookFixture, dataDir: string): Promise<WebhookStats> {
  const { receiver, events } = fixture
  await using service = await startService(dataDir, {
    TASSIS_DNS_SERVERS: `127.0.0.1:${fixture.dnsPort}`,
    TASSIS_EXTRA_CA_FILE: fixture.certFile,
    TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
  })
  const { port } = service
  receiver.writeLine(String(events))
  const counted = JSON.parse(await receiver.readLine()) as HookCount
  if (counted.events !== events) throw new CommandError(`The webhook received ${counted.events} of ${events} events.`)
  const used = readUsage(service.pid)
  // The outcomes of the last attempts are still being stored.
  await systemClock.sleep(1000)
  const get: GetJob = { host: '127.0.0.1', port, connections: REDIRECT_CONNECTIONS, paths: fixture.paths, status: 302 }
  const jobFile = join(dataDir, 'bench-get.json')
  await Bun.write(jobFile, JSON.stringify(get))
  await using getter = spawnSelf([GET_COMMAND, jobFile])
  const redirects = JSON.parse(await getter.readLine()) as LoadResult
  if (redirects.refused > 0) throw new CommandError(`${redirects.refused} links did not redirect.`)
  return {
    toldPerSecond: events / counted.seconds,
    toldCpuMs: used.cpuMs / events,
    redirectP50Ms: redirects.p50Ms,
    redirectP99Ms: redirects.p99Ms,
    peakRssMiB: readUsage(service.pid).peakRssMiB,
  }
}

/** Timeout for the endpoint. */
export const MAX_WAIT_SECONDS = MAX_SECONDS

export function makeCertificate(folder: string): { certFile: string; keyFile: string } {
  const [certFile, keyFile] = [join(folder, 'hooks.pem'), join(folder, 'hooks.key')]
  const command = `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=${HOOK_HOST} -addext subjectAltName=DNS:${HOOK_HOST}`
  try {
    const { exitCode } = Bun.spawnSync([...command.split(' '), '-keyout', keyFile, '-out', certFile], {
      stdout: 'ignore',
      stderr: 'ignore',
    })
    if (exitCode === 0) return { certFile, keyFile }
  } catch {
    // Reported below.
  }
  throw new CommandError(
    'The webhook benchmark needs openssl for the certificate of its endpoint; install it, or use --events 0.',
  )
}
