/**
 * @module Asks once a day what receivers publish about our mail, and keeps what they said last. Google Postmaster Tools
 * (API v2) of each verified domain, with a service account that may only read; Microsoft's SNDS of our addresses, by its
 * automated data access. Failures are logged when they begin, change or end, shown by `tassis doctor`, and tried again
 * within the hour. The only writer of `postmaster_data`.
 */
import type { Database } from 'bun:sqlite'
import { sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { attempt } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { parseJsonObject } from '#platform/json-object.ts'
import { createBoundedFetch } from '#platform/net/bounded-fetch.ts'
import { readCertificateAuthorities } from '#platform/net/certificate-authorities.ts'
import { days, hours, KiB, type Millis, seconds } from '#platform/units.ts'

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
const [GOOGLE, SNDS] = ['Google Postmaster Tools', 'Microsoft SNDS']
const GOOGLE_URL = 'https://gmailpostmastertools.googleapis.com'
const SNDS_URL = 'https://sendersupport.olc.protection.outlook.com/snds'
/** Less than a day, so that each is asked in each daily round. */
const INTERVAL_MS = hours(23)
/** Domains asked in a run, those asked longest ago first; and rows of each report. */
const [MAX_DOMAINS, MAX_ROWS] = [500, 256]
const SPAM_DAYS = 7

const sql = prepareStatements((db) => ({
  due: db.prepare<{ id: number; domain: string }, [number, number]>(
    `SELECT id, domain FROM domains LEFT JOIN postmaster_data ON domain_id = id
     WHERE verified_at IS NOT NULL AND deleted_at IS NULL AND coalesce(asked_at, 0) <= ? ORDER BY asked_at LIMIT ?`,
  ),
  one: db.prepare<{ data: string | null }, [number]>('SELECT data FROM postmaster_data WHERE domain_id = ?'),
  store: db.prepare(
    `INSERT INTO postmaster_data (domain_id, asked_at, data) SELECT id, ?2, ?3 FROM domains WHERE id = ?1
     ON CONFLICT DO UPDATE SET asked_at = excluded.asked_at, data = excluded.data`,
  ),
  postpone: db.prepare(
    `INSERT INTO postmaster_data (domain_id, asked_at) SELECT id, ?2 FROM domains WHERE id = ?1
     ON CONFLICT DO UPDATE SET asked_at = excluded.asked_at`,
  ),
}))

/** What Google said last; undefined: nothing. */
export const readGoogleReport = (db: Database, domainId: number): GoogleReport | undefined =>
  attempt(() => JSON.parse(sql(db).one.get(domainId)?.data ?? '') as GoogleReport)

/** What SNDS said last; undefined: nothing. */
export const readSndsReport = (db: Database): SndsReport | undefined =>
  attempt(() => JSON.parse(getMeta(db, 'snds') ?? '') as SndsReport)

const createRequest = ({ clock, config }: App) =>
  createBoundedFetch({ clock, ca: readCertificateAuthorities(config), timeoutMs: seconds(20), maxBytes: 512 * KiB })

const toProblemKey = (receiver: string): string => `receiver_problem:${receiver}`

/** Receivers that are to be asked and do not say what they think of our mail, with the reason. */
export const listReceiverProblems = ({ config, db }: Pick<App, 'config' | 'db'>) =>
  Object.entries({ [GOOGLE]: config.googleServiceAccount, [SNDS]: config.sndsKey }).flatMap(([receiver, key]) => {
    const problem = key && getMeta(db, toProblemKey(receiver))
    return problem ? [{ receiver, message: `${receiver} does not say what it thinks of our mail: ${problem}.` }] : []
  })

/** Logs a failure when it begins or is another one, and its end. Stored, so that a restart repeats nothing. */
async function logFailure(app: App, receiver: string, run: () => Promise<void>): Promise<void> {
  const problem = await run().then(
    () => '',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )
  const key = toProblemKey(receiver)
  if (problem === (getMeta(app.db, key) ?? '')) return
  if (problem === '') app.log.info({ receiver }, 'the receiver answers again')
  else app.log.warn({ receiver, problem }, 'the receiver does not say what it thinks of our mail')
  await app.commit.writeFromReserve((tx) => setMeta(tx.db, key, problem))
}

/** Asks Google about the domains that are due. */
export async function askGoogle(app: App, signal: AbortSignal, url = GOOGLE_URL): Promise<void> {
  const now = app.clock.now()
  const due = app.config.googleServiceAccount === '' ? [] : sql(app.db).due.all(now - INTERVAL_MS, MAX_DOMAINS)
  if (due.length === 0) return
  await logFailure(app, GOOGLE, async () => {
    const ask = await signIn(app, signal, url)
    for (const { id, domain } of due) {
      if (signal.aborted) return
      const data = await askAboutDomain(ask, domain, now).catch(async (error: unknown) => {
        // Still due, but after the others: a domain about which Google always fails must not keep them waiting.
        await app.commit.write((tx) => void sql(tx.db).postpone.run(id, now - INTERVAL_MS))
        throw error
      })
      await app.commit.write((tx) => void sql(tx.db).store.run(id, now, data && JSON.stringify(data)))
    }
  })
}

/** Resolves with undefined for what the service account may not see. Throws for any other failure. */
type Ask = <T>(path: string, body?: object) => Promise<T | undefined>

/** Gets an access token by a signed assertion (RFC 7523), which proves the key of the service account. */
async function signIn(app: App, signal: AbortSignal, url: string): Promise<Ask> {
  const request = createRequest(app)
  const account = parseJsonObject(readFileSync(app.config.googleServiceAccount, 'utf8')) ?? {}
  const { client_email: iss, private_key: key, token_uri: aud } = account
  const iat = Math.floor(app.clock.now() / 1000)
  const claims = { iss, aud, scope: SCOPE, iat, exp: iat + 3600 }
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const text = `${encode({ alg: 'RS256', typ: 'JWT' })}.${encode(claims)}`
  const signature = attempt(() => sign('sha256', Buffer.from(text), String(key)))
  if (!signature || typeof aud !== 'string')
    throw new Error('the file of TASSIS_GOOGLE_SERVICE_ACCOUNT is no key of a service account')
  const form = new URLSearchParams({ grant_type: GRANT, assertion: `${text}.${signature.toString('base64url')}` })
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const signedIn = await request(aud, { method: 'POST', headers, body: form.toString(), signal })
  if (signedIn.status >= 500) throw new Error(`it responded with ${signedIn.status}`)
  const { access_token: token, error } = parseJsonObject(signedIn.text) ?? {}
  const reason = `${signedIn.status} ${String(error).slice(0, 100)}`
  if (typeof token !== 'string') throw new Error(`the service account is refused: ${reason}`)
  return async <T>(path: string, body?: object) => {
    const { status, text } = await request(`${url}/v2/${path}`, {
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
      signal,
    })
    if (status === 200) return parseJsonObject(text) as T | undefined
    // What Google refuses for all domains would fail for the rest of the run as well.
    if (text.includes('SERVICE_DISABLED')) throw new Error("the API is not enabled in the service account's project")
    if (![400, 403, 404].includes(status)) throw new Error(`it responded with ${status}`)
    return undefined
  }
}

/** Of the discovery document of v2, what is read here. */
type Said = { requirement?: string; status?: { status?: string } }
type Compliance = { rowData?: Said[]; oneClickUnsubscribeVerdict?: Said; honorUnsubscribeVerdict?: Said }
type ComplianceStatus = { complianceData?: Compliance; subdomainComplianceData?: Compliance }
type Stats = { domainStats?: { value?: { doubleValue?: number; floatValue?: number } }[] }

async function askAboutDomain(ask: Ask, domain: string, askedAt: Millis): Promise<GoogleReport | null> {
  const status = await ask<ComplianceStatus>(`domains/${domain}/complianceStatus`)
  if (status === undefined) return null
  const toDate = (at: Millis) => {
    const [year, month, day] = isoTime(at).slice(0, 10).split('-').map(Number)
    return { year, month, day }
  }
  const stats = await ask<Stats>(`domains/${domain}/domainStats:query`, {
    metricDefinitions: [{ name: 'spam', baseMetric: { standardMetric: 'SPAM_RATE' } }],
    timeQuery: { dateRanges: { dateRanges: [{ start: toDate(askedAt - days(SPAM_DAYS)), end: toDate(askedAt) }] } },
    aggregationGranularity: 'DAILY',
    pageSize: SPAM_DAYS + 1,
  })
  // v2 does not name the unit; v1 called it a ratio. What is above 1 is none, so it says nothing.
  const rates = (stats?.domainStats ?? [])
    .map(({ value }) => value?.doubleValue ?? value?.floatValue ?? -1)
    .filter((rate) => rate >= 0 && rate <= 1)
  // Google judges a subdomain itself only if it has enough mail of it.
  const judged = status.subdomainComplianceData ?? status.complianceData
  const rows = [
    ...(judged?.rowData ?? []),
    { ...judged?.oneClickUnsubscribeVerdict, requirement: 'ONE_CLICK_UNSUBSCRIBE' },
    { ...judged?.honorUnsubscribeVerdict, requirement: 'HONOR_UNSUBSCRIBE' },
  ]
  const said = rows
    .slice(0, MAX_ROWS)
    .map((row) => [String(row.requirement).slice(0, 40), row.status?.status ?? ''] as const)
    .filter(([, state]) => state === 'COMPLIANT' || state === 'NEEDS_WORK')
  const spamRate = rates.length === 0 ? null : Math.max(...rates)
  return { askedAt, compliance: Object.fromEntries(said), spamRate }
}

/** Asks SNDS if its last answer is a day old. */
export async function askSnds(app: App, signal: AbortSignal, url = SNDS_URL): Promise<void> {
  const { sndsKey } = app.config
  const fetchedAt = app.clock.now()
  if (sndsKey === '' || fetchedAt - (readSndsReport(app.db)?.fetchedAt ?? 0) < INTERVAL_MS) return
  await logFailure(app, SNDS, async () => {
    const path = `data.aspx?key=${encodeURIComponent(sndsKey)}`
    const { status, text } = await createRequest(app)(`${url}/${path}`, { signal })
    if (status >= 500) throw new Error(`it responded with ${status}`)
    // Without a valid key it shows a page for people.
    if (status !== 200 || text.trimStart().startsWith('<')) throw new Error(`TASSIS_SNDS_KEY is refused (${status})`)
    // Only the columns after these may have quotes.
    const rows = text.split(/\r?\n/).flatMap((line) => {
      const [ip = '', , , , , , result = '', complaints = '', , , traps] = line.split(',').map((cell) => cell.trim())
      const isRow = ['GREEN', 'YELLOW', 'RED'].includes(result)
      return isRow ? [{ ip, result, complaints: complaints.slice(0, 20), traps: Number(traps) || 0 }] : []
    })
    const report: SndsReport = { fetchedAt, rows: rows.slice(0, MAX_ROWS) }
    await app.commit.writeFromReserve((tx) => setMeta(tx.db, 'snds', JSON.stringify(report)))
  })
}
