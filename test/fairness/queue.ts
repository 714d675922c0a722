/**
 * @module Measures how long one message takes while an account has very many waiting: to one domain, over 10,000
 * domains, at a rate limit, and as a digest of the same account. Prints a table; see `scripts/fairness --queue --help`.
 */
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Actor } from '#features/core/app/app.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createStream } from '#features/setup/streams/streams.ts'
import { randomBelow } from '#platform/ids.ts'
import { hours } from '#platform/units.ts'
import { createTestAccount } from '#test/support/app.ts'
import { type MailFlow, startMailFlow } from '#test/support/mail-flow.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

const HELP = `scripts/fairness --queue [--messages N] [--tries N]

Account A has N messages waiting (100,000) at a receiver that takes 50 ms for each; prints how long single messages of
account B, or of A with high priority, take from acceptance to the receiver. Goal: 2,000 ms. Exit code 1 above it.`

const GOAL_MS = 2000
const DOMAIN_COUNT = 10_000
const RECEIVER_MS = 50
/** Of the rate-limited case. */
const PER_MINUTE = 60

interface Case {
  readonly name: string
  readonly domainCount: number
  /** Whether the single messages are of the same account, with high priority. */
  readonly isOwn: boolean
  readonly perMinute?: number
  /**
   * Range of the pause before each try. Where messages are seconds apart, one right after another takes its turn as the second
   * of its account, not as a single one.
   */
  readonly pauseMs?: number
}

const CASES: readonly Case[] = [
  { name: 'one domain', domainCount: 1, isOwn: false },
  { name: `${DOMAIN_COUNT} domains`, domainCount: DOMAIN_COUNT, isOwn: false },
  { name: `one domain, ${PER_MINUTE} a minute`, domainCount: 1, isOwn: false, perMinute: PER_MINUTE, pauseMs: 4000 },
  { name: 'one domain, own digest', domainCount: 1, isOwn: true },
]

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '100000' },
    tries: { type: 'string', default: '30' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  console.log(HELP)
  process.exit(0)
}

/** Accepts a message. */
async function send(flow: MailFlow, actor: Actor, to: string, options: object = {}): Promise<void> {
  const from = actor === flow.actor ? 'ada@sender.test' : 'bob@other.test'
  const request = { from, to, subject: 'Hello', text_body: 'Hello.\n', ...options }
  await acceptEmail(flow.app, actor, createDraft(flow.app, request, undefined))
}

/** Copies the only email, which is scheduled, so that `count` are due over the domains. */
function fill({ app }: MailFlow, count: number, domainCount: number): void {
  const columnsOf = (table: string): string[] =>
    app.db
      .query<{ name: string }, []>(`SELECT name FROM pragma_table_info('${table}') WHERE name <> 'id'`)
      .all()
      .map(({ name }) => name)
  const copy = (table: string, replaced: Readonly<Record<string, string>>): void => {
    const columns = columnsOf(table)
    app.db.run(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
       INSERT INTO ${table} (id, ${columns.join(', ')})
       SELECT 1 + i, ${columns.map((name) => replaced[name] ?? name).join(', ')} FROM ${table}, n WHERE ${table}.id = 1`,
    )
  }
  app.db.run('BEGIN')
  copy('emails', { uuid: 'randomblob(16)' })
  const domain = domainCount === 1 ? "'one.test'" : `'d' || i % ${domainCount} || '.test'`
  const prefix = "substr(lane, 1, length(lane) - length('one.test'))"
  copy('recipients', {
    email_id: '1 + i',
    address: `'a' || i || '@' || ${domain}`,
    lane: `${prefix} || ${domain}`,
    next_at: String(app.clock.now()),
  })
  app.db.run('COMMIT')
  for (const { lane } of app.db.query<{ lane: string }, []>('SELECT DISTINCT lane FROM recipients').all())
    app.mailDue.emit({ lane, at: app.clock.now() })
}

/** Returns the times of the single messages, sorted. */
async function measure(
  { domainCount, isOwn, perMinute, pauseMs = 0 }: Case,
  messages: number,
  tries: number,
): Promise<number[]> {
  const arrived = new Map<string, () => void>()
  await using receiver = await startScriptedSmtp({
    async body(_, { commands }) {
      const rcpt = commands.findLast((command) => command.startsWith('RCPT')) ?? ''
      await Bun.sleep(RECEIVER_MS)
      arrived.get(/single\d+/.exec(rcpt)?.[0] ?? '')?.()
      return '250 2.0.0 Ok'
    },
  })
  const domains = ['one.test', ...Array.from({ length: domainCount }, (_, i) => `d${i}.test`)]
  const zone = Object.fromEntries(domains.map((domain) => [domain, { A: ['127.0.0.1'] }]))
  const file = join(tmpdir(), `fairness-${process.pid}.toml`)
  if (perMinute !== undefined)
    await Bun.write(file, `[limited]\nmx = ["one.test"]\nper_minute = ${perMinute}\nsource = "measured"\n`)
  await using flow = await startMailFlow({
    zone,
    smtpPort: receiver.port,
    ...(perMinute !== undefined && { settings: { TASSIS_PROVIDERS_FILE: file } }),
  })
  const { app } = flow
  const other = await createTestAccount(app)
  await createDomain(app, other, 'other.test')
  app.db.run('UPDATE domains SET verified_at = 1')
  await createStream(app, flow.actor, { slug: 'digests', name: 'Digests', priority: 'low' })
  await createStream(app, flow.actor, { slug: 'codes', name: 'Codes', priority: 'high' })
  const later = new Date(app.clock.now() + hours(1)).toISOString()
  await send(flow, flow.actor, 'a@one.test', { send_at: later, ...(isOwn && { stream: 'digests' }) })
  fill(flow, messages, domainCount)
  const times: number[] = []
  for (let index = 0; index < tries; index++) {
    const { promise, resolve } = Promise.withResolvers<void>()
    arrived.set(`single${index}`, resolve)
    if (pauseMs > 0) await Bun.sleep(pauseMs / 4 + randomBelow(pauseMs))
    const to = `single${index}@one.test`
    await (isOwn ? send(flow, flow.actor, to, { stream: 'codes' }) : send(flow, other, to))
    const sinceMs = performance.now()
    await promise
    times.push(performance.now() - sinceMs)
  }
  return times.sort((a, b) => a - b)
}

const at = (sorted: readonly number[], fraction: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN

console.log(`${values.messages} messages wait; ms from acceptance to the receiver, which takes ${RECEIVER_MS} of them`)
console.log('     p50     p99     max  case')
let isOver = false
for (const item of CASES) {
  const times = await measure(item, Number(values.messages), Number(values.tries))
  console.log(
    `${[at(times, 0.5), at(times, 0.99), at(times, 1)].map((ms) => ms.toFixed(0).padStart(8)).join('')}  ${item.name}`,
  )
  isOver ||= at(times, 1) > GOAL_MS
}
process.exit(isOver ? 1 : 0)
