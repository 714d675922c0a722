/**
 * @module The soak test: runs a steady mixed load for many minutes (sends, deliveries, webhooks, received mail, clicks,
 * reads) and measures how memory, file descriptors, WAL and disk of the service grow. Receivers and generator run in
 * this process, because they have little to do.
 */
import { readdirSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CommandError } from '#app/cli/admin-command.ts'
import { loadConfig } from '#app/settings.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { createWebhook } from '#features/webhooks/webhooks/change.ts'
import { systemClock } from '#platform/clock.ts'
import { KiB, MiB } from '#platform/units.ts'
import { startBenchDns } from './dns.ts'
import { answerHookDns, HOOK_HOST, startHookReceiver } from './hook-receiver.ts'
import { findFreePort, routeSupportMail, writeMessages } from './inbound.ts'
import { createMailPatterns } from './mails.ts'
import { readUsage, startService } from './processes.ts'
import { answerReceiverDns } from './receiver.ts'
import { seedDataDirectory } from './seed.ts'
import { startBenchSink } from './sink.ts'
import { runSubmit } from './submit.ts'
import { computeTrend, type Trend } from './trend.ts'
import { listLinks, makeCertificate } from './webhooks.ts'

export interface SoakOptions {
  readonly minutes: number
  readonly sendsPerSecond: number
  /** Folder for the temporary data directory. */
  readonly folder: string
}

/** Trends of the service process and its data directory. */
export interface SoakResult {
  readonly rssMiB: Trend
  readonly descriptors: Trend
  readonly walMiB: Trend
  readonly diskMiB: Trend
  readonly sent: number
  readonly delivered: number
  readonly received: number
  readonly told: number
  /** Requests that were refused or failed. */
  readonly refused: number
}

const STORED_COUNT = 10_000
const MESSAGE_COUNT = 500
const LARGE_EVERY = 50
const ATTACHMENT_BYTES = 300 * KiB
const TICK_MS = 200
const SAMPLE_MS = 5_000
/** Maximum number of concurrent requests; while that many run, further ones are skipped and counted as refused. */
const MAX_IN_PROGRESS = 200
/** Reads, clicks and received messages per send. */
const READS_PER_SEND = 0.3
const CLICKS_PER_SEND = 0.2
const MESSAGES_PER_SEND = 0.1

type Sample = Record<'rssMiB' | 'descriptors' | 'walMiB' | 'diskMiB', number>

/** @param progress receives a description of each step */
export async function soak(options: SoakOptions, progress: (text: string) => void): Promise<SoakResult> {
  const folder = await mkdtemp(join(options.folder, 'tassis-soak-'))
  try {
    return await runSoak(folder, options, progress)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function runSoak(
  folder: string,
  { minutes, sendsPerSecond }: SoakOptions,
  progress: (text: string) => void,
): Promise<SoakResult> {
  progress(`storing ${STORED_COUNT} emails`)
  const certificate = makeCertificate(folder)
  const hooks = await startHookReceiver(certificate, systemClock)
  const sink = await startBenchSink()
  const { answersTo, ...messages } = await writeMessages(folder, MESSAGE_COUNT, LARGE_EVERY)
  const dnsPort = await startBenchDns((name, type) =>
    [answerReceiverDns, answerHookDns, answersTo].flatMap((answers) => answers(name, type)),
  )
  const dataDir = join(folder, 'data')
  const { config } = loadConfig({
    TASSIS_DATA_DIR: dataDir,
    TASSIS_HOSTNAME: 'mail.bench.test',
    TASSIS_LOG_LEVEL: 'error',
  })
  const key = await seedDataDirectory(config, STORED_COUNT, async (app, account) => {
    await routeSupportMail(app, account)
    await createWebhook(app, toOperatorActor(account), {
      url: `https://${HOOK_HOST}:${hooks.port}/hook`,
      events: ['sent', 'delivered', 'clicked'],
    })
  })
  const links = await listLinks(config)
  const inboundPort = await findFreePort()
  await using service = await startService(dataDir, {
    TASSIS_INBOUND_ADDR: `127.0.0.1:${inboundPort}`,
    TASSIS_INBOUND_MESSAGES_PER_MINUTE: '1000000',
    TASSIS_INBOUND_BYTES_PER_HOUR: '1000GiB',
    TASSIS_DNS_SERVERS: `127.0.0.1:${dnsPort}`,
    TASSIS_SMTP_PORT: String(sink.port),
    TASSIS_EXTRA_CA_FILE: certificate.certFile,
    TASSIS_ALLOW_PRIVATE_NETWORKS: 'loopback',
  })
  const load = startLoad({
    url: `http://127.0.0.1:${service.port}`,
    key,
    links,
    messages: { ...messages, port: inboundPort },
  })
  const samples: Sample[] = []
  const startedMs = systemClock.monotonicMs()
  let loggedMinute = 0
  for (let tick = 1; tick * TICK_MS <= minutes * 60_000; tick++) {
    await systemClock.sleep(Math.max(startedMs + tick * TICK_MS - systemClock.monotonicMs(), 0))
    load.upTo((tick * TICK_MS * sendsPerSecond) / 1000)
    if ((tick * TICK_MS) % SAMPLE_MS !== 0) continue
    const sample = takeSample(service.pid, dataDir)
    samples.push(sample)
    const minute = Math.floor((tick * TICK_MS) / 60_000)
    if (minute === loggedMinute) continue
    loggedMinute = minute
    progress(
      `minute ${minute} of ${minutes}: ${load.counts.sent} sent, ${sink.count()} delivered, RSS ${sample.rssMiB.toFixed(0)} MiB, ${sample.descriptors} descriptors`,
    )
  }
  await load.end()
  if (samples.length === 0) throw new CommandError('The soak was too short for one sample; give it more minutes.')
  const trend = (name: keyof Sample) =>
    computeTrend(
      samples.map((sample) => sample[name]),
      SAMPLE_MS,
    )
  return {
    rssMiB: trend('rssMiB'),
    descriptors: trend('descriptors'),
    walMiB: trend('walMiB'),
    diskMiB: trend('diskMiB'),
    ...load.counts,
    delivered: sink.count(),
    told: hooks.counted().requests,
  }
}

function takeSample(pid: number, dataDir: string): Sample {
  return {
    rssMiB: readUsage(pid).rssMiB,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    walMiB: (statSync(join(dataDir, 'tassis.db-wal'), { throwIfNoEntry: false })?.size ?? 0) / MiB,
    diskMiB: measureFolder(dataDir) / MiB,
  }
}

/** Sums the sizes of all files below a folder; a file deleted during this counts as 0. */
const measureFolder = (folder: string): number =>
  readdirSync(folder, { withFileTypes: true })
    .map((entry) => {
      const path = join(folder, entry.name)
      return entry.isDirectory() ? measureFolder(path) : (statSync(path, { throwIfNoEntry: false })?.size ?? 0)
    })
    .reduce((sum, bytes) => sum + bytes, 0)

interface LoadTarget {
  readonly url: string
  readonly key: string
  readonly links: readonly string[]
  readonly messages: Omit<Parameters<typeof runSubmit>[0], 'connections'>
}

/**
 * Creates the load. `upTo` starts everything that is due after the given number of sends, without waiting for any of
 * it.
 */
function startLoad({ url, key, links, messages }: LoadTarget) {
  const counts = { sent: 0, received: 0, refused: 0 }
  const done = { sends: 0, reads: 0, clicks: 0, messages: 0 }
  const inProgress = new Set<Promise<void>>()
  const patterns = createMailPatterns()
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const attachment = Buffer.alloc(ATTACHMENT_BYTES, 'Bring me a hundred of them. ').toString('base64')
  const reads = ['emails?per_page=20', 'events?limit=20', 'inbound', 'analytics/overview', 'webhooks', 'account']

  const start = (work: () => Promise<boolean>): void => {
    if (inProgress.size >= MAX_IN_PROGRESS) {
      counts.refused++
      return
    }
    const task = work()
      .catch(() => false)
      .then((isGood) => {
        if (!isGood) counts.refused++
      })
    inProgress.add(task)
    void task.then(() => inProgress.delete(task))
  }
  const hasStatus = async (path: string, expected: number, init?: RequestInit): Promise<boolean> => {
    const answer = await fetch(url + path, { redirect: 'manual', ...init })
    await answer.arrayBuffer()
    return answer.status === expected
  }
  const send = async (number: number): Promise<boolean> => {
    const mail = JSON.stringify(patterns[number % patterns.length]).replaceAll(
      '0123456789',
      String(number).padStart(10, '0'),
    )
    const attachments = [{ filename: `order-${number}.txt`, content: attachment, content_type: 'text/plain' }]
    const body = number % 20 === 19 ? JSON.stringify({ ...JSON.parse(mail), attachments }) : mail
    const isGood = await hasStatus('/v1/emails', 202, { method: 'POST', headers, body })
    if (isGood) counts.sent++
    return isGood
  }
  const submit = async (from: number, to: number): Promise<boolean> => {
    const first = from % MESSAGE_COUNT
    const places = messages.places.slice(first, Math.min(first + to - from, MESSAGE_COUNT) + 1)
    const { accepted, refused } = await runSubmit({ ...messages, places, connections: 1 }, systemClock)
    counts.received += accepted
    return refused === 0
  }
  return {
    counts,
    upTo(sends: number): void {
      for (; done.sends < Math.floor(sends); done.sends++) {
        const number = done.sends
        start(() => send(number))
      }
      for (; done.reads < Math.floor(sends * READS_PER_SEND); done.reads++) {
        const path = `/v1/${reads[done.reads % reads.length]}`
        start(() => hasStatus(path, 200, { headers }))
      }
      for (; done.clicks < Math.floor(sends * CLICKS_PER_SEND); done.clicks++) {
        const path = links[done.clicks % links.length] ?? ''
        start(() => hasStatus(path, 302))
      }
      // Ten messages per connection.
      while (done.messages + 10 <= sends * MESSAGES_PER_SEND) {
        const from = done.messages
        done.messages += 10
        start(() => submit(from, done.messages))
      }
    },
    async end(): Promise<void> {
      await Promise.all(inProgress)
    },
  }
}
