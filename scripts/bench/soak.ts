/**
 * @module The soak test: runs a steady mixed load for many minutes (sends, deliveries, webhooks, received mail, clicks,
 * reads) and measures how memory, file descriptors, WAL and disk of the service grow. See `scripts/soak`.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { checkConsistency } from '#app/cli/check.ts'
import { CommandError } from '#app/cli/options.ts'
import { formatTable, print } from '#app/cli/output.ts'
import { type Exchange, runLoad } from '#bench/load.ts'
import { createMailPatterns } from '#bench/mails.ts'
import { createDataDirectory, loadBenchConfig } from '#bench/measure.ts'
import { observe, readUsage, startService } from '#bench/processes.ts'
import { startReceiver } from '#bench/receiver.ts'
import { createPoster } from '#bench/sending.ts'
import { toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { createWebhook } from '#features/webhooks/webhooks/manage/change.ts'
import { openReadOnly } from '#platform/db/open.ts'
import { systemClock } from '#platform/time/clock.ts'
import { KiB, MiB } from '#platform/units.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { startHooks } from './hooks.ts'
import { readSample } from './lists.ts'
import { createSignedMessages, INBOUND_SETTINGS, routeSupportMail } from './receiving.ts'
import { openSmtp } from './smtp-load.ts'
import { storeEmails } from './stored-emails.ts'
import { computeTrend } from './trend.ts'

export interface SoakOptions {
  readonly minutes: number
  /** Percent of what the machine can do. */
  readonly load: number
  /** Emails per second, instead of measuring. */
  readonly rate?: number
  /** Folder for the temporary data directory. */
  readonly folder: string
}

/** What the service may use of memory at most. */
const MAX_RSS_MIB = 500
const STORED_COUNT = 10_000
const MEASURED_COUNT = 3000
const MESSAGE_COUNT = 500
const LARGE_EVERY = 50
const MESSAGES_PER_CONNECTION = 10
const ATTACHMENT = Buffer.alloc(300 * KiB, 'Bring me a hundred of them. ').toString('base64')
const READS = ['emails?per_page=20', 'events?limit=20', 'inbound', 'analytics/overview', 'webhooks', 'account']
const TICK_MS = 200
const SAMPLE_MS = 5_000
/** Maximum number of concurrent requests; while that many run, further ones are skipped and counted as refused. */
const MAX_IN_PROGRESS = 200

/** The values of a sample and their titles. */
const TITLES = { rssMiB: 'RSS MiB', descriptors: 'open descriptors', walMiB: 'WAL MiB', diskMiB: 'data directory MiB' }
type Sample = Readonly<Record<keyof typeof TITLES, number>>

/** Prints growth and counts. Throws CommandError for lost mail, inconsistent data or memory above MAX_RSS_MIB. */
export async function soak(options: SoakOptions): Promise<void> {
  const folder = mkdtempSync(join(options.folder, 'tassis-soak-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.on('exit', remove)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130))
  try {
    await runSoak(folder, options)
  } finally {
    remove()
  }
}

async function runSoak(folder: string, { minutes, load: percent, rate }: SoakOptions): Promise<void> {
  const { messages, records } = await createSignedMessages(MESSAGE_COUNT, LARGE_EVERY)
  await using receiver = await startReceiver({ records })
  const certFile = join(folder, 'receiver.pem')
  await using hooks = await startHooks(certFile)
  const config = loadBenchConfig(join(folder, 'data'))
  const key = await createDataDirectory(config, async (app, account, domainId) => {
    await routeSupportMail(app, account, domainId)
    await createWebhook(app, toOperatorActor(account), {
      url: hooks.url,
      events: ['sent', 'delivered', 'clicked'],
    })
    await storeEmails({ emails: STORED_COUNT })(app, account, domainId)
  })
  const links = (await readSample(config, STORED_COUNT)).map(({ link }) => link)
  const inboundPort = await findFreePort()
  await using service = await startService(config.dataDir, {
    ...INBOUND_SETTINGS,
    TASSIS_INBOUND_ADDR: `127.0.0.1:${inboundPort}`,
    TASSIS_DNS_SERVERS: `127.0.0.1:${receiver.dnsPort}`,
    TASSIS_SMTP_PORT: String(receiver.smtpPort),
    TASSIS_EXTRA_CA_FILE: certFile,
  })
  const perSecond = rate ?? ((await measureRate(service.pid, service.port, key, receiver)) * percent) / 100
  print(`${perSecond.toFixed(0)} emails a second for ${minutes} minutes`)
  const load = startLoad({ port: service.port, key, links, messages, inboundPort })
  const samples: Sample[] = []
  const startedMs = systemClock.monotonicMs()
  for (let atMs = TICK_MS; atMs <= minutes * 60_000; atMs += TICK_MS) {
    await systemClock.sleep(Math.max(startedMs + atMs - systemClock.monotonicMs(), 0))
    load.upTo((atMs * perSecond) / 1000)
    if (atMs % SAMPLE_MS !== 0) continue
    const sample = takeSample(service.pid, config.dataDir)
    samples.push(sample)
    if (atMs % 60_000 === 0)
      print(
        `minute ${atMs / 60_000}: ${load.counts.sent} sent, ${receiver.count().messages} delivered, RSS ${sample.rssMiB.toFixed(0)} MiB, ${sample.descriptors} descriptors`,
      )
  }
  await load.end()
  const { messages: delivered } = await receiver.waitFor(load.counts.sent)
  print(formatGrowth(samples))
  print(
    `${load.counts.sent} sent, ${delivered} delivered, ${load.counts.received} received, ${hooks.countRequests()} webhook requests, ${load.counts.refused} refused`,
  )
  const { peakRssMiB } = readUsage(service.pid)
  await service[Symbol.asyncDispose]()
  using db = openReadOnly(join(config.dataDir, 'tassis.db'))
  const broken = checkConsistency(db).filter(({ differences }) => differences.length > 0)
  if (broken.length > 0)
    throw new CommandError(`The data is inconsistent: ${broken.map(({ rule }) => rule).join('; ')}.`)
  if (delivered !== load.counts.sent) throw new CommandError('Not every accepted email was delivered once.')
  if (!(peakRssMiB <= MAX_RSS_MIB))
    throw new CommandError(`The resident memory reached ${peakRssMiB.toFixed(0)} MiB, more than ${MAX_RSS_MIB}.`)
}

/** Returns how many emails a second this machine accepts and delivers. */
async function measureRate(
  pid: number,
  port: number,
  key: string,
  receiver: Awaited<ReturnType<typeof startReceiver>>,
): Promise<number> {
  const { seconds } = await observe(pid, async () => {
    await createPoster(port, key)(MEASURED_COUNT)
    await receiver.waitFor(MEASURED_COUNT)
  })
  return MEASURED_COUNT / seconds
}

function takeSample(pid: number, dataDir: string): Sample {
  // A file may be deleted meanwhile.
  const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0
  const files = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return {
    rssMiB: readUsage(pid).rssMiB,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    walMiB: sizeOf(join(dataDir, 'tassis.db-wal')) / MiB,
    diskMiB: files.reduce((sum, { parentPath, name }) => sum + sizeOf(join(parentPath, name)), 0) / MiB,
  }
}

/** The slope of a line through all but the first quarter of the samples, with its 95 % error. */
function formatGrowth(samples: readonly Sample[]): string {
  const rows = Object.entries(TITLES).map(([name, title]) => {
    const values = samples.map((sample) => sample[name as keyof Sample])
    const { first, last, highest, perHour, errorPerHour } = computeTrend(values, SAMPLE_MS)
    return [
      title,
      ...[first, last, highest].map((value) => value.toFixed(1)),
      Number.isNaN(perHour) ? 'too short' : `${perHour.toFixed(1)} ± ${errorPerHour.toFixed(1)}`,
    ]
  })
  return formatTable(['', 'FIRST', 'LAST', 'HIGHEST', 'GROWTH PER HOUR'], rows)
}

interface LoadTarget {
  readonly port: number
  readonly inboundPort: number
  readonly key: string
  readonly links: readonly string[]
  readonly messages: readonly Exchange[]
}

/** Creates the load. `upTo` starts everything that is due after so many sends, without waiting for any of it. */
function startLoad({ port, inboundPort, key, links, messages }: LoadTarget) {
  const counts = { sent: 0, received: 0, refused: 0 }
  const inProgress = new Set<Promise<void>>()
  const patterns = createMailPatterns()
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const request = async (path: string, expected: number, init?: RequestInit): Promise<void> => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { redirect: 'manual', ...init })
    await answer.arrayBuffer()
    if (answer.status !== expected) throw new Error(`${path} was answered with ${answer.status}`)
  }
  /** Each kind of work, and how much of it for one send. */
  const kinds: { perSend: number; done: number; run(number: number): Promise<void> }[] = [
    {
      perSend: 1,
      done: 0,
      async run(number) {
        const mail = JSON.stringify(patterns[number % patterns.length])
        const email = JSON.parse(mail.replaceAll('0123456789', String(number).padStart(10, '0'))) as object
        const attachments = [{ filename: `order-${number}.txt`, content: ATTACHMENT, content_type: 'text/plain' }]
        const body = JSON.stringify(number % 20 === 19 ? { ...email, attachments } : email)
        await request('/v1/emails', 202, { method: 'POST', headers, body })
        counts.sent++
      },
    },
    { perSend: 0.3, done: 0, run: (number) => request(`/v1/${READS[number % READS.length]}`, 200, { headers }) },
    { perSend: 0.2, done: 0, run: (number) => request(links[number % links.length] ?? '', 302) },
    {
      perSend: 0.1 / MESSAGES_PER_CONNECTION,
      done: 0,
      async run(number) {
        const first = (number * MESSAGES_PER_CONNECTION) % MESSAGE_COUNT
        const target = { open: openSmtp(inboundPort), connections: 1, expected: '250' }
        await runLoad(target, messages.slice(first, first + MESSAGES_PER_CONNECTION))
        counts.received += MESSAGES_PER_CONNECTION
      },
    },
  ]
  const start = (work: Promise<void>): void => {
    const task: Promise<void> = work.catch(() => void counts.refused++).finally(() => inProgress.delete(task))
    inProgress.add(task)
  }
  return {
    counts,
    upTo(sends: number): void {
      for (const kind of kinds)
        for (; kind.done < Math.floor(sends * kind.perSend); kind.done++)
          if (inProgress.size < MAX_IN_PROGRESS) start(kind.run(kind.done))
          else counts.refused++
    },
    end: async (): Promise<void> => void (await Promise.all(inProgress)),
  }
}
