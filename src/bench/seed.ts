/**
 * @module Creates the data directory of a benchmark run: an account with a verified domain, a key and a number of sent
 * emails, inserted by SQL. The bodies of the emails are in the content store. A hundred emails share each pair of
 * HTML and text body, because identical bodies are stored once.
 */
import type { Database } from 'bun:sqlite'
import { openApp } from '#app/create.ts'
import type { Account } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { toEventCode } from '#features/core/events/record.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { indexAllEmails } from '#features/sending/queue/search.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { DEFAULT_STREAM, findStreamId } from '#features/setup/streams/streams.ts'
import type { Config } from '#platform/config.ts'
import { days } from '#platform/units.ts'
import { createMailPatterns, HTML_BYTES, RECEIVER_DOMAIN, SENDER_DOMAIN, TEXT_BYTES } from './mails.ts'
import seedSql from './seed.sql' with { type: 'text' }

const EMAILS_PER_BLOB = 100
const BLOB_BATCH_SIZE = 200
const STORED_OVER_DAYS = 30

/**
 * Fills a new data directory and returns the API key.
 * @param before runs after the account is created and before any email
 */
export async function seedDataDirectory(
  config: Config,
  emails: number,
  before: (app: App, account: Account) => Promise<void> = async () => undefined,
): Promise<string> {
  const opened = openApp(config)
  try {
    const { app } = opened
    const account = await createAccount(app, { name: 'Bench', email: 'owner@bench.test', plan: 'unlimited' })
    const actor = toOperatorActor(account)
    const { domain } = await createDomain(app, actor, SENDER_DOMAIN)
    const { key } = await createApiKey(app, actor, { name: 'bench' })
    await before(app, account)
    const blobs = await storeBlobs(app, Math.ceil(emails / EMAILS_PER_BLOB))
    const now = app.clock.now()
    const parameters = {
      emails,
      account_id: account.id,
      domain_id: domain.id,
      stream_id: findStreamId(app.db, account.id, DEFAULT_STREAM) ?? 0,
      from_address: `Bench <orders@${SENDER_DOMAIN}>`,
      receiver_domain: RECEIVER_DOMAIN,
      size_bytes: TEXT_BYTES + HTML_BYTES,
      since_ms: now - days(STORED_OVER_DAYS),
      until_ms: now - days(1) / 24,
      sent_status: statusCode('sent'),
      queued_event: toEventCode('queued'),
      sent_event: toEventCode('sent'),
      delivered_event: toEventCode('delivered'),
    }
    await app.commit.write(({ db }) => {
      db.run(
        `CREATE TEMP TABLE seed_parts AS SELECT CAST(key AS INTEGER) AS number, json_extract(value, '$[0]') AS html_ref,
         json_extract(value, '$[1]') AS text_ref FROM json_each(?)`,
        [JSON.stringify(blobs)],
      )
      runSeedSql(db, seedSql, parameters)
      indexAllEmails(db)
    })
    return key
  } finally {
    await opened.close()
  }
}

/** Runs the statements of an SQL file, which read the parameters from the only row of the table `seed`. */
export function runSeedSql(db: Database, sql: string, parameters: Readonly<Record<string, string | number>>): void {
  const columns = Object.entries(parameters).map(
    ([name, value]) => `${typeof value === 'number' ? value : `'${value}'`} AS ${name}`,
  )
  db.run(`CREATE TEMP TABLE seed AS SELECT ${columns.join(', ')}`)
  for (const statement of sql.split(/;\n/)) if (/^\w/m.test(statement.replace(/^--.*$/gm, ''))) db.run(statement)
  db.run('DROP TABLE seed')
}

/** Stores the bodies and returns pairs of references: HTML and text. */
async function storeBlobs(
  { content, clock }: ReturnType<typeof openApp>['app'],
  count: number,
): Promise<(readonly [number, number])[]> {
  const patterns = createMailPatterns()
  const pairs: (readonly [number, number])[] = []
  while (pairs.length < count) {
    const bodies = Array.from({ length: Math.min(BLOB_BATCH_SIZE, count - pairs.length) }, (_, index) => {
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
