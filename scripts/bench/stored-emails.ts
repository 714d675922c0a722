/**
 * @module Stores emails that were sent in the data directory of a benchmark run, inserted by SQL. The bodies of the emails
 * are in the content store. About a hundred emails share each pair of HTML and text body, because identical bodies are
 * stored once.
 */
import type { Database } from 'bun:sqlite'
import { createMailPatterns, HTML_BYTES, RECEIVER_DOMAIN, SENDER_DOMAIN, TEXT_BYTES } from '#bench/mails.ts'
import type { Fill } from '#bench/measure.ts'
import type { App } from '#features/core/app/app.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { indexPendingEmails } from '#features/sending/queue/search.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { findDomain } from '#features/setup/domains/domains.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import { parseUuid } from '#platform/ids.ts'
import { days, hours } from '#platform/units.ts'
import storedEmailsSql from './stored-emails.sql' with { type: 'text' }

const EMAILS_PER_BODY = 100
const MAX_BODIES = 10_000
const BODY_BATCH_SIZE = 200
const EMAILS_PER_ADDRESS = 10
/** Emails stored in one transaction, so that the write-ahead log stays small. */
const EMAILS_PER_PART = 50_000
const EVENTS = ['queued', 'sent', 'delivered', 'bounced', 'opened', 'clicked'] as const

export interface StoreOptions {
  readonly emails: number
  /** Days over which the emails were sent, up to two hours ago. */
  readonly days?: number
  readonly domains?: number
}

/** Stores so many emails of the account. */
export const storeEmails =
  (options: StoreOptions): Fill =>
  async (app, account, domainId) => {
    const uuid = parseUuid(domainId)
    const domain = uuid && findDomain(app.db, account.id, uuid)
    if (!domain) throw new Error('the account of the benchmark has no domain')
    await storeEmailsOf(app, account.id, domain.id, options)
  }

const progress = (text: string) => void process.stderr.write(`${text}\n`)

async function storeEmailsOf(app: App, accountId: number, domainId: number, options: StoreOptions): Promise<void> {
  const { emails, days: dayCount = 30, domains = 1 } = options
  progress(`storing ${emails} emails`)
  const untilMs = app.clock.now() - hours(2)
  const bodies = JSON.stringify(await storeBodies(app, Math.min(MAX_BODIES, Math.ceil(emails / EMAILS_PER_BODY))))
  const parameters = {
    all_emails: emails,
    since_ms: untilMs - days(dayCount),
    until_ms: untilMs,
    account_id: accountId,
    domain_id: domainId,
    stream_id: findStreamId(app.db, accountId, DEFAULT_STREAM) ?? 0,
    from_address: `Bench <orders@${SENDER_DOMAIN}>`,
    receiver_domain: RECEIVER_DOMAIN,
    people: Math.ceil(emails / EMAILS_PER_ADDRESS),
    domains,
    size_bytes: TEXT_BYTES + HTML_BYTES,
    sent_status: statusCode('sent'),
    bounced_status: statusCode('bounced'),
    event_codes: JSON.stringify(Object.fromEntries(EVENTS.map((name) => [name, toEventCode(name)]))),
  }
  const lastSeq = app.db.query<{ n: number | null }, [number]>(
    'SELECT max(last_seq) AS n FROM event_sequences WHERE account_id = ?',
  )
  for (let first = 0; first < emails; first += EMAILS_PER_PART) {
    if (first > 0 && first % (5 * EMAILS_PER_PART) === 0) progress(`  ${Math.round((first * 100) / emails)} %`)
    const part = {
      ...parameters,
      first,
      emails: Math.min(EMAILS_PER_PART, emails - first),
      last_seq: lastSeq.get(accountId)?.n ?? 0,
    }
    await app.commit.write(({ db }) => insertPart(db, bodies, part))
    await indexPendingEmails(app)
  }
}

/** Runs the statements of stored-emails.sql. @param bodies pairs of references as JSON */
function insertPart(db: Database, bodies: string, parameters: Readonly<Record<string, string | number>>): void {
  const columns = Object.entries(parameters).map(
    ([name, value]) => `${typeof value === 'number' ? value : `'${value}'`} AS ${name}`,
  )
  db.run(`CREATE TEMP TABLE seed AS SELECT ${columns.join(', ')}`)
  db.run(
    `CREATE TEMP TABLE seed_bodies AS SELECT CAST(key AS INTEGER) AS number, json_extract(value, '$[0]') AS html_ref,
     json_extract(value, '$[1]') AS text_ref FROM json_each(?)`,
    [bodies],
  )
  for (const statement of storedEmailsSql.split(/;\n/))
    if (/^\w/m.test(statement.replace(/^--.*$/gm, ''))) db.run(statement)
  db.run('DROP TABLE seed')
  db.run('DROP TABLE seed_bodies')
}

/** Stores the bodies and returns pairs of references: HTML and text. */
async function storeBodies({ content, clock }: App, count: number): Promise<(readonly [number, number])[]> {
  const patterns = createMailPatterns()
  const pairs: (readonly [number, number])[] = []
  while (pairs.length < count) {
    const bodies = Array.from({ length: Math.min(BODY_BATCH_SIZE, count - pairs.length) }, (_, index) => {
      const number = pairs.length + index
      const { html_body = '', text_body = '' } = patterns[number % patterns.length] ?? {}
      return [numberBody(html_body, number), numberBody(text_body, number)]
    })
    const refs = await content.put(bodies.flat(), clock.now())
    for (let index = 0; index < refs.length; index += 2) pairs.push([refs[index] ?? 0, refs[index + 1] ?? 0])
  }
  return pairs
}

/** Makes a body unique without changing its size. */
const numberBody = (body: string, number: number): Uint8Array =>
  Buffer.from(body.replace(/\d{10}/, `s${String(number).padStart(9, '0')}`))
