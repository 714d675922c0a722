/**
 * @module Submits messages that are hard to parse to a real service, one by one and several at once, and prints the
 * memory of its process above idle and the response times of its HTTP API. See `scripts/fuzz-parse --help`.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SENDER_DOMAIN } from '#bench/mails.ts'
import { createDataDirectory, loadBenchConfig } from '#bench/measure.ts'
import { startService } from '#bench/processes.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { INBOUND_SETTINGS, routeSupportMail } from '../../scripts/bench/receiving.ts'
import { type HostileMessage, MAX_BYTES, messages } from './parse-messages.ts'
import { formatMegabytes, readMemoryBytes, watch } from './watch.ts'

const HELP = `scripts/fuzz-parse [--only TEXT]... [--together N] [--rest]
Submits messages that are hard to parse to a real service, one by one and then N at once (default 3; 0: never), and prints
memory and responses; --rest: also the memory a minute later. Exits with 1 when a message is lost, when memory exceeds idle
by more than 200 MB, or when HTTP does not respond.`
/** From submission until it is stored. */
const MAX_STORE_MS = 90_000
const RECIPIENT = `support@${SENDER_DOMAIN}`

const { values: args } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [''] },
    together: { type: 'string', default: '3' },
    rest: { type: 'boolean', default: false },
    /** Index of a message and the port: the program submits it, so that its memory distorts no measurement. */
    submit: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
if (args.help) {
  console.log(HELP)
  process.exit(0)
}
if (args.submit !== undefined) {
  const [index = 0, port = 0] = args.submit.split(':').map(Number)
  const message = messages[index]
  process.exit(message && (await submit(port, message)) ? 0 : 1)
}

const dataDir = mkdtempSync(join(tmpdir(), 'tassis-fuzz-parse-'))
const dns = await startDnsServer({})
const key = await createDataDirectory(loadBenchConfig(dataDir), routeSupportMail)
const smtpPort = await findFreePort()
const service = await startService(dataDir, {
  ...INBOUND_SETTINGS,
  TASSIS_INBOUND_ADDR: `127.0.0.1:${smtpPort}`,
  TASSIS_DNS_SERVERS: dns.address,
  TASSIS_MIN_FREE_DISK: '0',
})
const url = `http://127.0.0.1:${service.port}`
// Without these messages, memory for what is loaded only once would not count as idle.
for (let warm = 1; warm <= 3; warm++) {
  await submit(smtpPort, {
    name: 'an ordinary message',
    pieces: () => ['From: a@b.test\r\nSubject: x\r\n\r\nHello.\r\n'],
  })
  while ((await readPage(1)).pagination.total < warm) await Bun.sleep(20)
}
await Bun.sleep(2_000)
const idleBytes = readMemoryBytes(service.pid)
console.log(`idle: ${formatMegabytes(idleBytes)} MB; memory in MB above it`)
console.log('seconds    peak   after   slowest /healthz ms   stored as         message')

let hasFailed = false
const chosen = [...messages.entries()].filter(([, { name }]) => args.only.some((text) => name.includes(text)))
for (const one of chosen) await attack(one[1].name, [one])
const together = Number(args.together)
for (let first = 0; together > 1 && first < chosen.length; first += together) {
  const few = chosen.slice(first, first + together)
  await attack(`${together} at once: ${few.map(([, { name }]) => name).join(' | ')}`, few)
}
// The parse Worker ends after a minute without work.
await Bun.sleep(args.rest === true ? 65_000 : 0)
console.log(`at the end: ${formatMegabytes(readMemoryBytes(service.pid) - idleBytes)} MB above idle`)
console.log(hasFailed ? 'FAILED' : 'all messages were stored')
await service[Symbol.asyncDispose]()
await dns.close()
rmSync(dataDir, { recursive: true, force: true })
process.exitCode = hasFailed ? 1 : 0

async function attack(name: string, few: readonly (readonly [index: number, HostileMessage])[]): Promise<void> {
  const before = (await readPage(1)).pagination.total
  const startedMs = performance.now()
  const submitters = few.map(([index]) =>
    Bun.spawn([process.execPath, import.meta.path, '--submit', `${index}:${smtpPort}`], { stderr: 'inherit' }),
  )
  let stored = 0
  const watched = await watch({ pid: service.pid, url: `${url}/healthz`, idleBytes }, async () => {
    stored = (await readPage(1)).pagination.total - before
    const refused = submitters.filter(({ exitCode }) => (exitCode ?? 0) !== 0).length
    return stored + refused >= few.length || performance.now() - startedMs > MAX_STORE_MS
  })
  await Bun.sleep(500)
  const { seconds, peakBytes, responseMs } = watched
  const lost = few.length - stored
  const problems = [...watched.problems, ...(lost > 0 ? [`${lost} MESSAGES LOST`] : [])]
  hasFailed ||= problems.length > 0
  const statuses = new Set((await readPage(few.length)).data.map(({ status }) => status))
  console.log(
    [
      seconds.toFixed(1).padStart(7),
      formatMegabytes(peakBytes).padStart(8),
      formatMegabytes(readMemoryBytes(service.pid) - idleBytes).padStart(8),
      (responseMs.at(-1) ?? Number.NaN).toFixed(0).padStart(14),
      `          ${[...statuses].join(', ').padEnd(18)}${[name, ...problems].join('  ')}`,
    ].join(''),
  )
}

interface Page {
  readonly pagination: { readonly total: number }
  readonly data: readonly { readonly status: string }[]
}

async function readPage(count: number): Promise<Page> {
  const response = await fetch(`${url}/v1/inbound?per_page=${count}`, {
    headers: { authorization: `Bearer ${key}` },
    signal: AbortSignal.timeout(10_000),
  })
  return (await response.json()) as Page
}

/** Submits a message. Returns whether it got a 250. */
async function submit(port: number, { name, mailFrom = 'a@sender.test', pieces }: HostileMessage): Promise<boolean> {
  await using client = await connectSmtp(port)
  let reply = await client.reply()
  for (const line of ['EHLO submitter.test', `MAIL FROM:<${mailFrom}>`, `RCPT TO:<${RECIPIENT}>`, 'DATA'])
    reply = await client.say(line)
  let sentBytes = 0
  for (const piece of pieces()) {
    const octets = typeof piece === 'string' ? Buffer.from(piece) : piece
    const sent = octets.subarray(0, MAX_BYTES - sentBytes)
    sentBytes += sent.length
    await client.write(sent)
  }
  await client.write('\r\n.\r\n')
  reply = (await client.reply()) || reply
  if (!reply.startsWith('250')) console.error(`${name}: ${reply}`)
  return reply.startsWith('250')
}
