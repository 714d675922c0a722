/**
 * @module Asks once a day what receivers publish about our mail, at URLs that the operator set, and keeps what they said
 * last. Google Postmaster Tools (API v2) of each verified domain, with a service account that may only read; Microsoft's
 * SNDS of our addresses, by its automated data access. Failures are logged when they begin, change or end, and tried
 * again within the hour. The only writer of `postmaster_data`.
 */
import type { Database } from 'bun:sqlite'
import { sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { attempt } from '#platform/attempt.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { createBoundedFetch } from '#platform/net/bounded-fetch.ts'
import { readCertificateAuthorities } from '#platform/net/certificate-authorities.ts'
import { readMember } from '#platform/net/llm.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days, hours, KiB, seconds } from '#platform/units.ts'

/** What Google says of a domain. */
export interface GoogleReport {
  readonly askedAt: Millis
  /** `COMPLIANT` or `NEEDS_WORK` by requirement, such as `SPF`. */
  readonly compliance: Readonly<Record<string, string>>
  /** The highest of the last 7 days, 0 to 1: mail that users marked as spam; null: Google has too little mail. */
  readonly spamRate: number | null
}

export interface SndsReport {
  readonly fetchedAt: Millis
  /** `result` is `GREEN`, `YELLOW` or `RED`; `complaints` as SNDS writes it, such as `< 0.1%`. */
  readonly rows: readonly { ip: string; result: string; complaints: string; traps: number }[]
}

const SCOPE = 'https://www.googleapis.com/auth/postmaster.traffic.readonly'
const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
/** Less than a day, so that each is asked in each daily round. */
const INTERVAL_MS = hours(23)
/** Domains asked in a run, those asked longest ago first; and rows of SNDS. */
const [MAX_DOMAINS, MAX_ROWS] = [500, 256]
const SPAM_DAYS = 7

const sql = prepareStatements((db) => ({
  due: db.prepare<{ id: number; domain: string }, [number, number]>(
    `SELECT id, domain FROM domains LEFT JOIN postmaster_data ON domain_id = id
     WHERE verified_at IS NOT NULL AND deleted_at IS NULL AND coalesce(asked_at, 0) <= ? ORDER BY asked_at LIMIT ?`,
  ),
  one: db.prepare<{ askedAt: number; data: string | null }, [number]>(
    'SELECT asked_at AS askedAt, data FROM postmaster_data WHERE domain_id = ?',
  ),
  store: db.prepare(
    `INSERT INTO postmaster_data (domain_id, asked_at, data) SELECT id, ?2, ?3 FROM domains WHERE id = ?1
     ON CONFLICT DO UPDATE SET asked_at = excluded.asked_at, data = excluded.data`,
  ),
}))

/** What Google said last; undefined: nothing. */
export function readGoogleReport(db: Database, domainId: number): GoogleReport | undefined {
  const row = sql(db).one.get(domainId)
  return row?.data ? { ...(JSON.parse(row.data) as Omit<GoogleReport, 'askedAt'>), askedAt: row.askedAt } : undefined
}

/** What SNDS said last; undefined: nothing. */
export const readSndsReport = (db: Database): SndsReport | undefined =>
  attempt(() => JSON.parse(getMeta(db, 'snds') ?? '') as SndsReport)

const createRequest = ({ clock, config }: App) =>
  createBoundedFetch({ clock, ca: readCertificateAuthorities(config), timeoutMs: seconds(20), maxBytes: 512 * KiB })

/** Logs a failure when it begins or is another one, and its end. Stored, so that a restart repeats nothing. */
async function logFailure(app: App, receiver: string, run: () => Promise<void>): Promise<void> {
  const problem = await run().then(
    () => '',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )
  const key = `receiver_problem:${receiver}`
  if (problem === (getMeta(app.db, key) ?? '')) return
  if (problem === '') app.log.info({ receiver }, 'the receiver answers again')
  else app.log.warn({ receiver, problem }, 'the receiver does not say what it thinks of our mail')
  await app.commit.writeFromReserve((tx) => setMeta(tx.db, key, problem))
}

/** Asks Google about the domains that are due. */
export async function askGoogle(app: App, signal: AbortSignal): Promise<void> {
  const now = app.clock.now()
  const due = app.config.googleServiceAccount === '' ? [] : sql(app.db).due.all(now - INTERVAL_MS, MAX_DOMAINS)
  if (due.length === 0) return
  await logFailure(app, 'Google Postmaster Tools', async () => {
    const ask = await signIn(app, signal)
    for (const { id, domain } of due) {
      if (signal.aborted) return
      const data = await askAboutDomain(ask, domain, now)
      await app.commit.write((tx) => void sql(tx.db).store.run(id, now, data && JSON.stringify(data)))
    }
  })
}

/** Resolves with undefined for what the service account may not see. Throws for any other failure. */
type Ask = (path: string, body?: object) => Promise<unknown>

/** Gets an access token by a signed assertion (RFC 7523), which proves the key of the service account. */
async function signIn(app: App, signal: AbortSignal): Promise<Ask> {
  const { googleServiceAccount, postmasterToolsUrl } = app.config
  const request = createRequest(app)
  const account = parse(readFileSync(googleServiceAccount, 'utf8'))
  const [iss, key, aud] = ['client_email', 'private_key', 'token_uri'].map((name) => String(readMember(account, name)))
  const iat = Math.floor(app.clock.now() / 1000)
  const text = [
    { alg: 'RS256', typ: 'JWT' },
    { iss, aud, scope: SCOPE, iat, exp: iat + 3600 },
  ]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.')
  const signature = attempt(() => sign('sha256', Buffer.from(text), key ?? ''))
  if (!signature || !aud) throw new Error('the file of TASSIS_GOOGLE_SERVICE_ACCOUNT is no key of a service account')
  const body = new URLSearchParams({ grant_type: GRANT, assertion: `${text}.${signature.toString('base64url')}` })
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const signedIn = await request(aud, { method: 'POST', headers, body: body.toString(), signal })
  const [token, error] = ['access_token', 'error'].map((name) => readMember(parse(signedIn.text), name))
  const reason = `${signedIn.status} ${String(error).slice(0, 100)}`
  if (typeof token !== 'string') throw new Error(`the service account is refused: ${reason}`)
  return async (path, json) => {
    const { status, text } = await request(`${postmasterToolsUrl}/v2/${path}`, {
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(json && { method: 'POST', body: JSON.stringify(json) }),
      signal,
    })
    if (status === 200) return parse(text)
    // Any other failure is none of this domain, so the rest of the run would fail as well.
    if (![400, 403, 404].includes(status)) throw new Error(`it responded with ${status}`)
    return undefined
  }
}

const parse = (text: string): unknown => attempt(() => JSON.parse(text))
const toList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value.slice(0, 50) : [])

async function askAboutDomain(ask: Ask, domain: string, now: Millis): Promise<Omit<GoogleReport, 'askedAt'> | null> {
  const status = await ask(`domains/${domain}/complianceStatus`)
  if (status === undefined) return null
  const toDate = (at: Millis) => {
    const [year, month, day] = isoTime(at).slice(0, 10).split('-').map(Number)
    return { year, month, day }
  }
  const stats = await ask(`domains/${domain}/domainStats:query`, {
    metricDefinitions: [{ name: 'spam', baseMetric: { standardMetric: 'SPAM_RATE' } }],
    timeQuery: { dateRanges: { dateRanges: [{ start: toDate(now - days(SPAM_DAYS)), end: toDate(now) }] } },
    aggregationGranularity: 'DAILY',
    pageSize: SPAM_DAYS + 1,
  })
  const rates = toList(readMember(stats, 'domainStats')).flatMap((stat) => {
    const value = readMember(stat, 'value')
    const rate = readMember(value, 'doubleValue') ?? readMember(value, 'floatValue')
    return typeof rate === 'number' ? [rate] : []
  })
  // Google judges a subdomain itself only if it has enough mail of it.
  const judged = readMember(status, 'subdomainComplianceData') ?? readMember(status, 'complianceData')
  const rows = toList(readMember(judged, 'rowData')).map((row) => [
    String(readMember(row, 'requirement')).slice(0, 40),
    String(readMember(readMember(row, 'status'), 'status')),
  ])
  return {
    compliance: Object.fromEntries(rows.filter(([, state]) => state === 'COMPLIANT' || state === 'NEEDS_WORK')),
    spamRate: rates.length === 0 ? null : Math.max(...rates),
  }
}

/** Asks SNDS if its last answer is a day old. */
export async function askSnds(app: App, signal: AbortSignal): Promise<void> {
  const { sndsKey, sndsUrl } = app.config
  const fetchedAt = app.clock.now()
  if (sndsKey === '' || fetchedAt - (readSndsReport(app.db)?.fetchedAt ?? 0) < INTERVAL_MS) return
  await logFailure(app, 'Microsoft SNDS', async () => {
    const url = `${sndsUrl}/data.aspx?key=${encodeURIComponent(sndsKey)}`
    const { status, text } = await createRequest(app)(url, { signal })
    // Without a valid key it shows a page for people.
    if (status !== 200 || text.trimStart().startsWith('<')) throw new Error(`TASSIS_SNDS_KEY is refused (${status})`)
    const rows = text.split(/\r?\n/).flatMap((line) => {
      const [ip = '', , , , , , result = '', complaints = '', , , traps] = line.split(',').map((cell) => cell.trim())
      const isRow = ['GREEN', 'YELLOW', 'RED'].includes(result)
      return isRow ? [{ ip, result, complaints: complaints.slice(0, 20), traps: Number(traps) || 0 }] : []
    })
    const report: SndsReport = { fetchedAt, rows: rows.slice(0, MAX_ROWS) }
    await app.commit.writeFromReserve((tx) => setMeta(tx.db, 'snds', JSON.stringify(report)))
  })
}
