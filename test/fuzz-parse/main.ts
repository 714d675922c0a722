/**
 * @module Submits messages that are hard to parse to a real service, one by one and several at once, and prints the
 * memory of its process above idle and the response times of its HTTP API. See `scripts/fuzz-parse --help`.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { type AttackedService, RECIPIENT, startAttackedService } from './fixture.ts'
import { messages } from './messages.ts'

const HELP = `scripts/fuzz-parse [--only TEXT]... [--together N] [--rest]
Submits messages that are hard to parse to a real service, one by one and then N at once (default 3; 0: never), and prints
memory and responses; --rest: also the memory a minute later. Exits with 1 when a message is lost, when memory exceeds idle
by more than 200 MB, or when HTTP does not respond.`
const MAX_BYTES_ABOVE_IDLE = 200_000_000
/** From submission until it is stored. */
const MAX_STORE_MS = 90_000
const PROBE_INTERVAL_MS = 20

const { values: args } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [''] },
    together: { type: 'string', default: '3' },
    rest: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
if (args.help) {
  console.log(HELP)
  process.exit(0)
}

await using service = await startAttackedService()
// Without these messages, memory for what is loaded only once would not count as idle.
for (let warm = 0; warm < 3; warm++) await submitOrdinary(service)
await Bun.sleep(2_000)
const idleBytes = service.memoryBytes()
console.log(`idle: ${megabytes(idleBytes)} MB; memory in MB above it`)
console.log('seconds    peak   after   slowest /healthz ms   stored as         message')

let hasFailed = false
const chosen = [...messages.entries()].filter(([, { name }]) => args.only.some((text) => name.includes(text)))
for (const [index, { name }] of chosen) await attack(name, [index])
const together = Number(args.together)
for (let first = 0; together > 1 && first < chosen.length; first += together)
  await attack(
    `${together} at once: ${chosen
      .slice(first, first + together)
      .map(([, { name }]) => name)
      .join(' | ')}`,
    chosen.slice(first, first + together).map(([index]) => index),
  )
// The parse Worker ends after a minute without work.
await Bun.sleep(args.rest === true ? 65_000 : 0)
console.log(`at the end: ${megabytes(service.memoryBytes() - idleBytes)} MB above idle`)
console.log(hasFailed ? 'FAILED' : 'all messages were stored')
process.exitCode = hasFailed ? 1 : 0

async function attack(name: string, indexes: readonly number[]): Promise<void> {
  const before = await countStored(service)
  service.takePeakBytes()
  const startedMs = performance.now()
  const submitters = indexes.map((index) =>
    Bun.spawn([process.execPath, join(import.meta.dir, 'submitter.ts'), String(index), String(service.smtpPort)], {
      stderr: 'inherit',
    }),
  )
  let refused = 0
  for (const submitter of submitters) void submitter.exited.then((code) => (refused += code === 0 ? 0 : 1))
  let slowestMs = 0
  let unanswered = 0
  let stored = 0
  while (stored + refused < indexes.length && performance.now() - startedMs < MAX_STORE_MS) {
    const askedMs = performance.now()
    const isAnswered = await service.get('/healthz').then(
      (answer) => answer.ok,
      () => false,
    )
    if (isAnswered) slowestMs = Math.max(slowestMs, performance.now() - askedMs)
    else unanswered++
    stored = (await countStored(service)) - before
    await Bun.sleep(PROBE_INTERVAL_MS)
  }
  const seconds = (performance.now() - startedMs) / 1000
  const peakBytes = service.takePeakBytes() - idleBytes
  await Bun.sleep(500)
  const problems = [
    ...(peakBytes > MAX_BYTES_ABOVE_IDLE ? ['TOO MUCH MEMORY'] : []),
    ...(unanswered > 0 ? [`${unanswered} HTTP REQUESTS WITHOUT A RESPONSE`] : []),
    ...(stored === indexes.length ? [] : [`${indexes.length - stored} MESSAGES LOST`]),
  ]
  if (problems.length > 0) hasFailed = true
  console.log(
    [
      seconds.toFixed(1).padStart(7),
      megabytes(peakBytes).padStart(8),
      megabytes(service.memoryBytes() - idleBytes).padStart(8),
      slowestMs.toFixed(0).padStart(14),
      `          ${(await listStatuses(service, indexes.length)).padEnd(18)}${[name, ...problems].join('  ')}`,
    ].join(''),
  )
}

interface Page {
  readonly pagination: { readonly total: number }
  readonly data: readonly { readonly status: string }[]
}

async function readPage({ get }: AttackedService, count: number): Promise<Page> {
  return (await (await get(`/v1/inbound?per_page=${count}`)).json()) as Page
}

async function countStored(attacked: AttackedService): Promise<number> {
  return (await readPage(attacked, 1)).pagination.total
}

async function listStatuses(attacked: AttackedService, count: number): Promise<string> {
  return [...new Set((await readPage(attacked, count)).data.map(({ status }) => status))].join(', ')
}

async function submitOrdinary(attacked: AttackedService): Promise<void> {
  const before = await countStored(attacked)
  await using client = await connectSmtp(attacked.smtpPort)
  await client.reply()
  for (const line of ['EHLO a.test', 'MAIL FROM:<a@b.test>', `RCPT TO:<${RECIPIENT}>`, 'DATA']) await client.say(line)
  const reply = await client.say('From: a@b.test\r\nSubject: x\r\n\r\nHello.\r\n.')
  if (!reply.startsWith('250')) throw new Error(`an ordinary message was not accepted: ${reply}`)
  while ((await countStored(attacked)) === before) await Bun.sleep(20)
}

function megabytes(bytes: number): string {
  return (bytes / 1_000_000).toFixed(0)
}
