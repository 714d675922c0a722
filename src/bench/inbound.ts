/**
 * @module The inbound mail benchmark: signed messages are submitted over SMTP, parsed, authenticated and stored for a
 * route; then the cost of a thousand long polls on a mailbox is measured.
 */
import { createPrivateKey } from 'node:crypto'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Answer } from 'dns-packet'
import { CommandError } from '#app/cli/admin-command.ts'
import type { Account } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { createMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { findDomainByName } from '#features/setup/domains/domains.ts'
import { vouchForDomain } from '#features/setup/domains/verify.ts'
import { createRoute } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { systemClock } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { formatDkimRecord, generateDkimKey } from '#protocols/dkim/keys.ts'
import { signMessage } from '#protocols/dkim/sign.ts'
import { startBenchDns } from './dns.ts'
import type { LoadResult } from './load.ts'
import { createMailPatterns, SENDER_DOMAIN } from './mails.ts'
import { readUsage, spawnSelf, startService } from './processes.ts'
import { seedDataDirectory } from './seed.ts'
import { SUBMIT_COMMAND } from './submission.ts'
import type { SubmitJob } from './submit.ts'

/** Results of a run. CPU time is that of the service only: user and system, all threads. */
export interface InboundStats {
  /** Messages accepted with 250. */
  readonly takenPerSecond: number
  readonly takenP50Ms: number
  readonly takenP99Ms: number
  /** From the first connection until the last message is parsed, authenticated and stored. */
  readonly processedPerSecond: number
  readonly processedCpuMs: number
  readonly peakRssMiB: number
  /** Additional memory while LONG_POLLS requests wait. */
  readonly waitingRssMiB: number
  /** CPU time per second while the LONG_POLLS requests wait and no mail arrives. */
  readonly waitingCpuMs: number
}

export const INBOUND_STAT_NAMES = [
  'takenPerSecond',
  'takenP50Ms',
  'takenP99Ms',
  'processedPerSecond',
  'processedCpuMs',
  'peakRssMiB',
  'waitingRssMiB',
  'waitingCpuMs',
] as const satisfies readonly (keyof InboundStats)[]

export const LONG_POLLS = 1000
const WAITING_SECONDS = 5
const CONNECTIONS = 20
const CLIENT_DOMAIN = 'hander.bench.test'
const SELECTOR = 'bench'
const SMALL_BYTES = 54
/** Larger than the messages that are parsed in one piece. */
const LARGE_BYTES = 512 * KiB
const MAX_SECONDS = 600

export interface InboundFixture {
  readonly dataDir: string
  readonly key: string
  readonly mailboxId: string
  readonly dnsPort: number
  readonly file: string
  readonly places: readonly number[]
  readonly mailFrom: string
  readonly rcptTo: string
}

/** Creates the data directory, the messages and the DNS server of their sender. @param folder where both are created */
export async function prepareInbound(folder: string, config: Config, count: number): Promise<InboundFixture> {
  const { answersTo, ...messages } = await writeMessages(folder, count)
  const dnsPort = await startBenchDns(answersTo)
  let mailboxId = ''
  const key = await seedDataDirectory(config, 0, async (app, account) => {
    const domainId = await routeSupportMail(app, account)
    const actor = toOperatorActor(account)
    mailboxId = formatUuid((await createMailbox(app, actor, { local_part: 'agent', domain_id: domainId })).uuid)
  })
  return { dataDir: config.dataDir, key, mailboxId, dnsPort, ...messages }
}

/** Verifies the benchmark's domain, creates a route for the messages of `writeMessages` and returns the domain's id. */
export async function routeSupportMail(app: App, account: Account): Promise<string> {
  const actor = toOperatorActor(account)
  const domain = findDomainByName(app.db, account.id, SENDER_DOMAIN)
  if (!domain) throw new Error('the domain of the benchmark is missing')
  const domainId = formatUuid(domain.uuid)
  await vouchForDomain(app, actor, domainId)
  await createRoute(app, actor, {
    domainId,
    pattern: 'support',
    matchType: 'exact',
    priority: 0,
    webhookUrl: null,
    isActive: true,
  })
  return domainId
}

interface MessageFile extends Pick<SubmitJob, 'file' | 'places' | 'mailFrom' | 'rcptTo'> {
  /** DNS records of the sender, for `startBenchDns`. */
  readonly answersTo: (name: string, type: string) => Answer[]
}

/**
 * Writes a file of signed messages.
 * @param largeEvery every n-th message has an attachment of LARGE_BYTES
 */
export async function writeMessages(folder: string, count: number, largeEvery = Infinity): Promise<MessageFile> {
  const dkimKey = await generateDkimKey()
  const records: Readonly<Record<string, string>> = {
    [CLIENT_DOMAIN]: 'v=spf1 ip4:127.0.0.0/8 -all',
    [`${SELECTOR}._domainkey.${CLIENT_DOMAIN}`]: formatDkimRecord(dkimKey.publicKey),
    [`_dmarc.${CLIENT_DOMAIN}`]: 'v=DMARC1; p=reject',
  }
  const privateKey = createPrivateKey(dkimKey.privateKeyPem)
  const patterns = createMailPatterns()
  const file = join(folder, 'messages')
  const writer = Bun.file(file).writer()
  const places = [0]
  for (let number = 0; number < count; number++) {
    const { text_body = '', html_body = '' } = patterns[number % patterns.length] ?? {}
    const attachmentBytes = number % largeEvery === largeEvery - 1 ? LARGE_BYTES : SMALL_BYTES
    const unsigned = buildMessage(number, text_body, html_body, attachmentBytes)
    const message = signMessage(Buffer.from(unsigned, 'latin1'), {
      domain: CLIENT_DOMAIN,
      selector: SELECTOR,
      privateKey,
    })
    writer.write(message)
    places.push((places.at(-1) ?? 0) + message.length)
  }
  await writer.end()
  return {
    file,
    places,
    mailFrom: `customer@${CLIENT_DOMAIN}`,
    rcptTo: `support@${SENDER_DOMAIN}`,
    answersTo: (name, type) => {
      const text = type === 'TXT' ? records[name] : undefined
      // A TXT string has at most 255 octets (RFC 1035 §3.3).
      return text === undefined ? [] : [{ name, type: 'TXT', ttl: 300, data: text.match(/.{1,255}/g) ?? [] }]
    },
  }
}

/** Builds a typical customer message: text, HTML and an attachment. */
function buildMessage(number: number, text: string, html: string, attachmentBytes: number): string {
  const digits = String(number).padStart(8, '0')
  const lines = (body: string) => body.replace(/\r?\n/g, '\r\n').replace(/.{900}/g, '$&\r\n')
  return [
    `From: Customer ${digits} <customer-${number % 64}@${CLIENT_DOMAIN}>`,
    `To: Support <support@${SENDER_DOMAIN}>`,
    `Subject: Question ${digits}`,
    'Date: Sat, 21 Nov 2026 10:00:00 +0000',
    `Message-ID: <${digits}@${CLIENT_DOMAIN}>`,
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="mixed"',
    '',
    '--mixed',
    'Content-Type: multipart/alternative; boundary="alternative"',
    '',
    '--alternative',
    'Content-Type: text/plain; charset=utf-8',
    '',
    `${digits}\r\n${lines(text)}`,
    '--alternative',
    'Content-Type: text/html; charset=utf-8',
    '',
    `<!-- ${digits} -->${lines(html)}`,
    '--alternative--',
    '--mixed',
    `Content-Type: application/pdf; name="order-${digits}.pdf"`,
    `Content-Disposition: attachment; filename="order-${digits}.pdf"`,
    'Content-Transfer-Encoding: base64',
    '',
    `${'QnJpbmcgbWUgYSBodW5kcmVkIG9mIHRoZW0g'.repeat(2)}\r\n`.repeat(Math.ceil(attachmentBytes / 54)).trimEnd(),
    '--mixed--',
    '',
  ].join('\r\n')
}

/** Measures one run against a copy of the data directory. */
export async function runInbound(fixture: InboundFixture, dataDir: string): Promise<InboundStats> {
  const count = fixture.places.length - 1
  const smtpPort = await findFreePort()
  await using service = await startService(dataDir, {
    TASSIS_INBOUND_ADDR: `127.0.0.1:${smtpPort}`,
    TASSIS_INBOUND_MESSAGES_PER_MINUTE: '1000000',
    TASSIS_INBOUND_BYTES_PER_HOUR: '1000GiB',
    TASSIS_DNS_SERVERS: `127.0.0.1:${fixture.dnsPort}`,
    TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
  })
  const { port } = service
  const url = `http://127.0.0.1:${port}`
  const headers = { authorization: `Bearer ${fixture.key}` }
  const before = readUsage(service.pid)
  const job: SubmitJob = {
    port: smtpPort,
    connections: CONNECTIONS,
    mailFrom: fixture.mailFrom,
    rcptTo: fixture.rcptTo,
    file: fixture.file,
    places: fixture.places,
  }
  const jobFile = join(dataDir, 'bench-hand-in.json')
  await Bun.write(jobFile, JSON.stringify(job))
  const startedMs = systemClock.monotonicMs()
  await using client = spawnSelf([SUBMIT_COMMAND, jobFile])
  const accepted = JSON.parse(await client.readLine()) as LoadResult
  if (accepted.refused > 0) throw new CommandError(`${accepted.refused} messages were not accepted.`)
  await waitUntilStored(url, headers, count)
  const processedSeconds = (systemClock.monotonicMs() - startedMs) / 1000
  const after = readUsage(service.pid)

  const idle = readMemory(service.pid)
  const polls = Array.from({ length: LONG_POLLS }, () => openLongPoll(port, fixture))
  await systemClock.sleep(2000)
  const waitingBefore = readUsage(service.pid)
  await systemClock.sleep(WAITING_SECONDS * 1000)
  const waitingAfter = readUsage(service.pid)
  const waiting = readMemory(service.pid)
  for (const poll of polls) poll.destroy()
  return {
    takenPerSecond: accepted.accepted / accepted.seconds,
    takenP50Ms: accepted.p50Ms,
    takenP99Ms: accepted.p99Ms,
    processedPerSecond: count / processedSeconds,
    processedCpuMs: (after.cpuMs - before.cpuMs) / count,
    peakRssMiB: after.peakRssMiB,
    waitingRssMiB: waiting - idle,
    waitingCpuMs: (waitingAfter.cpuMs - waitingBefore.cpuMs) / WAITING_SECONDS,
  }
}

/** Opens a long poll for the next message, which never comes. Does not use fetch, which limits concurrent requests. */
function openLongPoll(port: number, { key, mailboxId }: InboundFixture): Socket {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(
    `GET /v1/agent-mailboxes/${mailboxId}/messages/next?timeout=30 HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${key}\r\n\r\n`,
  )
  return socket
}

/** Resolves when `count` messages are stored, and checks the authentication results of the last. */
async function waitUntilStored(url: string, headers: Record<string, string>, count: number): Promise<void> {
  const untilMs = systemClock.monotonicMs() + MAX_SECONDS * 1000
  for (;;) {
    const answer = await fetch(`${url}/v1/inbound?per_page=1`, { headers })
    const { pagination, data } = (await answer.json()) as {
      pagination: { total: number }
      data: { authentication: Record<string, string> }[]
    }
    if (pagination.total === count) {
      const { spf, dkim, dmarc } = data[0]?.authentication ?? {}
      if (spf === 'pass' && dkim === 'pass' && dmarc === 'pass') return
      throw new CommandError(`A message of the benchmark has spf=${spf} dkim=${dkim} dmarc=${dmarc} instead of pass.`)
    }
    if (systemClock.monotonicMs() > untilMs)
      throw new CommandError(`Only ${pagination.total} of ${count} messages were stored.`)
    await systemClock.sleep(20)
  }
}

/** Reads the current resident memory of a process, in MiB. */
const readMemory = (pid: number): number => readUsage(pid).rssMiB

export function findFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
