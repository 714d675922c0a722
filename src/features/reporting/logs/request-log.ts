/**
 * @module Writes the log of an account's requests, behind them: entries gather in memory, at most MAX_PENDING_BYTES, and
 * are written together about a second later, so that no request waits for its entry or fails because of it. What does
 * not fit, and what a full disk refuses, is dropped and counted; a crash loses what is not written. Each write also
 * removes what an account has beyond its rows and bytes. The only writer of `request_logs`.
 * `createHttpRecorder` decides which HTTP requests it has.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import type { Authenticator } from '#features/setup/api-keys/keys.ts'
import { belowId, codesOf, insertSql, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { type AppError, attempt } from '#platform/errors.ts'
import { readApiKey } from '#platform/http/authenticate.ts'
import type { Dialect } from '#platform/http/dialect.ts'
import type { EndedRequest } from '#platform/http/server.ts'
import { parseUuid } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { truncate } from '#platform/text.ts'
import type { Timer } from '#platform/time/clock.ts'
import { MiB, type Millis, minutes, seconds } from '#platform/units.ts'
import type { requestLogs } from './tables.ts'

export const REQUEST_KINDS = ['api', 'smtp', 'mcp', 'resend', 'postmark', 'supabase', 'mailgun', 'postal'] as const
export type RequestKind = (typeof REQUEST_KINDS)[number]
export const kinds = codesOf('kind of request', REQUEST_KINDS)

/** A request that has ended. */
export interface LogEntry {
  readonly accountId: number
  readonly kind: RequestKind
  /** HTTP method, or the SMTP command that the reply ended. */
  readonly method: string
  /** Without the query, which may have secrets; null for SMTP. */
  readonly path: string | null
  /** HTTP status, or code of the SMTP reply. */
  readonly status: number
  readonly error?: { readonly code: string; readonly message: string } | undefined
  readonly durationMs: number
  /** Public id of the API key or user. */
  readonly actorId: string
  readonly ipAddress: string | undefined
  readonly userAgent: string | null
  readonly requestId: string | null
  readonly emailId?: string | undefined
  /** Of a refused request: from `summariseBody`. */
  readonly body?: string | undefined
}

const FLUSH_INTERVAL_MS = seconds(1)
const DROP_NOTICE_INTERVAL_MS = minutes(1)
/** Of entries that are not written yet; one account may have a quarter. */
const MAX_PENDING_BYTES = 8 * MiB
const MAX_ACCOUNT_PENDING_BYTES = MAX_PENDING_BYTES / 4
/** Rows of one write, which takes half a millisecond. */
const BATCH_SIZE = 200
/** Of one account on disk; about twice what its rows take if most of them were successful. */
const MAX_ACCOUNT_BYTES = 64 * MiB
/** Bytes of a row without its texts. */
const ROW_BYTES = 40
const MAX_TEXT_LENGTH = 500
/** Owner of the writes, so that they get no larger share of the database than one account. */
const OWNER = 'request-log'

/** Ids of one millisecond. */
const IDS_PER_MS = 1024

/** The first id of a millisecond; ids of 2026 have 51 bits. */
export const toLogId = (at: Millis): number => at * IDS_PER_MS
export const toLogTime = (id: number): Millis => Math.floor(id / IDS_PER_MS)

const ACTOR_UUID = "unhex(replace(actor_id, '-', ''))"

const sql = prepareStatements((db) => ({
  newest: db.prepare<{ id: number }, [number, number, number]>(
    'SELECT id FROM request_logs WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ?',
  ),
  byId: db.prepare<StoredLogEntry, [number, number]>(
    `SELECT request_logs.id, kind, method, path, status, error_code AS errorCode, error_message AS errorMessage,
     duration_ms AS durationMs, actor_id AS actorId, ip_address AS ipAddress, user_agent AS userAgent,
     request_id AS requestId, email_id AS emailId, body,
     coalesce(api_keys.name, revoked_api_keys.name, users.name) AS actorName, coalesce(api_keys.uuid, revoked_api_keys.uuid) IS NOT NULL AS isKey
     FROM request_logs LEFT JOIN api_keys ON api_keys.uuid = ${ACTOR_UUID} AND api_keys.account_id = request_logs.account_id
     LEFT JOIN revoked_api_keys ON revoked_api_keys.uuid = ${ACTOR_UUID} AND revoked_api_keys.account_id = request_logs.account_id
     LEFT JOIN users ON users.uuid = ${ACTOR_UUID} WHERE request_logs.account_id = ? AND request_logs.id = ?`,
  ),
  isOpen: db.prepare<{ id: number }, [number]>('SELECT id FROM accounts WHERE id = ? AND deleted_at IS NULL'),
  last: db.prepare<{ id: number | null }, [number]>('SELECT max(id) AS id FROM request_logs WHERE account_id = ?'),
  insert: db.prepare<unknown, [typeof requestLogs.$inferSelect]>(
    insertSql(
      'request_logs',
      'accountId id kind method path status errorCode errorMessage durationMs actorId ipAddress userAgent requestId emailId body size',
    ),
  ),
  count: db.prepare<Totals, [number, number, number]>(
    `INSERT INTO request_log_totals (account_id, rows, bytes) VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET rows = rows + excluded.rows, bytes = bytes + excluded.bytes RETURNING rows, bytes`,
  ),
  totals: db.prepare<Totals, [number]>('SELECT rows, bytes FROM request_log_totals WHERE account_id = ?'),
  nextAccount: db.prepare<{ id: number }, [number]>(
    'SELECT account_id AS id FROM request_log_totals WHERE account_id > ? ORDER BY account_id LIMIT 1',
  ),
  oldest: db.prepare<{ id: number; size: number }, [number, number]>(
    'SELECT id, size FROM request_logs WHERE account_id = ? ORDER BY id LIMIT ?',
  ),
  deleteUpTo: db.prepare('DELETE FROM request_logs WHERE account_id = ? AND id <= ?'),
}))

interface Totals {
  readonly rows: number
  readonly bytes: number
}

interface PendingEntry extends LogEntry {
  readonly id: number
  readonly size: number
}

const measureEntry = ({ path, error, userAgent, requestId, emailId, body }: LogEntry): number =>
  ROW_BYTES +
  36 +
  [path, error?.code, error?.message, userAgent, requestId, emailId, body].reduce<number>(
    (sum, text) => sum + (text?.length ?? 0),
    0,
  )

export class RequestLog {
  readonly #app: App
  #pending: PendingEntry[] = []
  #pendingBytes = 0
  readonly #bytesOfAccounts = new Map<number, number>()
  #lastId = 0
  #timer: Timer | undefined
  #writing: Promise<void> | undefined
  #dropped = 0
  #nextNoticeAtMs = Number.NEGATIVE_INFINITY

  constructor(app: App) {
    this.#app = app
  }

  /** Adds an entry; never throws. */
  add(entry: LogEntry): void {
    const { clock, config } = this.#app
    if (config.requestLogRows === 0) return
    const short = {
      ...entry,
      path: entry.path && truncate(entry.path, MAX_TEXT_LENGTH),
      userAgent: entry.userAgent && truncate(entry.userAgent, MAX_TEXT_LENGTH),
      error: entry.error && { ...entry.error, message: truncate(entry.error.message, MAX_TEXT_LENGTH) },
    }
    const size = measureEntry(short)
    const accountBytes = (this.#bytesOfAccounts.get(entry.accountId) ?? 0) + size
    if (accountBytes > MAX_ACCOUNT_PENDING_BYTES || this.#pendingBytes + size > MAX_PENDING_BYTES) {
      this.#dropped++
      return
    }
    this.#lastId = Math.max(this.#lastId + 1, toLogId(clock.now()))
    this.#pending.push({ ...short, id: this.#lastId, size })
    this.#pendingBytes += size
    this.#bytesOfAccounts.set(entry.accountId, accountBytes)
    this.#timer ??= clock.after(FLUSH_INTERVAL_MS, () => void this.flush())
  }

  /** Resolves when the entries so far are written or dropped; never rejects. */
  async flush(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = undefined
    while (this.#writing) await this.#writing
    if (this.#pending.length === 0) return
    const entries = this.#pending
    this.#pending = []
    this.#writing = this.#write(entries)
    await this.#writing
  }

  async #write(entries: readonly PendingEntry[]): Promise<void> {
    for (let at = 0; at < entries.length; at += BATCH_SIZE) {
      const batch = entries.slice(at, at + BATCH_SIZE)
      try {
        await this.#app.commit.write((tx) => storeEntries(tx, batch, this.#app.config.requestLogRows), { owner: OWNER })
      } catch {
        this.#dropped += batch.length
      }
      for (const { accountId, size } of batch) {
        this.#pendingBytes -= size
        const left = (this.#bytesOfAccounts.get(accountId) ?? 0) - size
        if (left > 0) this.#bytesOfAccounts.set(accountId, left)
        else this.#bytesOfAccounts.delete(accountId)
      }
    }
    this.#writing = undefined
    this.#reportDropped()
  }

  #reportDropped(): void {
    const { clock, log } = this.#app
    if (this.#dropped === 0 || clock.monotonicMs() < this.#nextNoticeAtMs) return
    log.warn(
      { dropped: this.#dropped },
      'request log: entries dropped, because there were too many or the disk is full',
    )
    this.#dropped = 0
    this.#nextNoticeAtMs = clock.monotonicMs() + DROP_NOTICE_INTERVAL_MS
  }
}

/** The log of a service. */
export const getRequestLog = perOwner((app: App) => new RequestLog(app))

function storeEntries(tx: Tx, entries: readonly PendingEntry[], maxRows: number): void {
  for (const [accountId, ofAccount] of Map.groupBy(entries, (entry) => entry.accountId)) {
    if (!sql(tx.db).isOpen.get(accountId)) continue
    // After a restart with a clock that was set back, ids continue after the last one.
    let last = sql(tx.db).last.get(accountId)?.id ?? 0
    let bytes = 0
    for (const entry of ofAccount) {
      last = Math.max(last + 1, entry.id)
      bytes += entry.size
      insertEntry(tx, last, entry)
    }
    const totals = sql(tx.db).count.get(accountId, ofAccount.length, bytes)
    if (totals) removeExcess(tx, accountId, { ...totals, added: ofAccount.length }, maxRows)
  }
}

function insertEntry(tx: Tx, id: number, { error, ...entry }: PendingEntry): void {
  sql(tx.db).insert.run({
    ...entry,
    id,
    kind: kinds.codeOf(entry.kind),
    errorCode: error?.code ?? null,
    errorMessage: error?.message ?? null,
    durationMs: Math.round(entry.durationMs),
    ipAddress: entry.ipAddress ?? null,
    emailId: entry.emailId ?? null,
    body: entry.body ?? null,
  })
}

/** Removes the oldest rows of an account beyond its limits, at most two for each that was added. */
function removeExcess(
  tx: Tx,
  accountId: number,
  { rows, bytes, added }: Totals & { readonly added: number },
  maxRows: number,
): void {
  if (rows <= maxRows && bytes <= MAX_ACCOUNT_BYTES) return
  let [rowsLeft, bytesLeft] = [rows, bytes]
  removeOldest(tx, accountId, 2 * added, ({ size }) => {
    const isExcess = rowsLeft > maxRows || bytesLeft > MAX_ACCOUNT_BYTES
    rowsLeft--
    bytesLeft -= size
    return isExcess
  })
}

/** Removes the oldest rows of an account as long as `isOld` says so, at most `limit`; returns their number. */
function removeOldest(
  tx: Tx,
  accountId: number,
  limit: number,
  isOld: (row: { readonly id: number; readonly size: number }) => boolean,
): number {
  const rows = sql(tx.db).oldest.all(accountId, limit)
  const kept = rows.findIndex((row) => !isOld(row))
  const old = kept < 0 ? rows : rows.slice(0, kept)
  const last = old.at(-1)
  if (!last) return 0
  sql(tx.db).deleteUpTo.run(accountId, last.id)
  sql(tx.db).count.get(accountId, -old.length, -old.reduce((sum, { size }) => sum + size, 0))
  return old.length
}

/** Removes rows of an account that are older than `before`, at most `limit`; returns their number. */
export const purgeRequestLog = (tx: Tx, accountId: number, before: Millis, limit: number): number =>
  removeOldest(tx, accountId, limit, ({ id }) => id < toLogId(before))

/** The next account after one that has a log. */
export const findAccountWithLogAfter = (db: Database, accountId: number): number | undefined =>
  sql(db).nextAccount.get(accountId)?.id

export type StoredLogEntry = Readonly<Omit<typeof requestLogs.$inferSelect, 'accountId' | 'size'>> & {
  /** Of the API key, also of a revoked one, or of the user. */
  readonly actorName: string | null
  readonly isKey: number
}

/** @param id the row id; its decimal digits are the public id */
export const findLogEntry = (db: Database, accountId: number, id: number | string): StoredLogEntry | undefined =>
  (/^\d{1,16}$/.test(String(id)) && sql(db).byId.get(accountId, Number(id))) || undefined

/** The newest entries, or those after a position. */
export const listNewestEntries = (db: Database, accountId: number, window: RowWindow): StoredLogEntry[] =>
  sql(db)
    .newest.all(accountId, belowId(window), window.limit)
    .flatMap(({ id }) => findLogEntry(db, accountId, id) ?? [])

/** Rows in the log of an account. */
export const countLogRows = (db: Database, accountId: number): number => sql(db).totals.get(accountId)?.rows ?? 0

/** A path of requests that send, of `/v1` and of every other interface. */
const SENDS = /\/emails?(?:\/|$)|^\/hooks\//
/** POST requests that change nothing, of which a dashboard makes many: at each key that is typed. */
const READS = /\/(?:render|replay\/count|import\/preview)$/
/** Signing in and the work of operators, which have the audit log, and the log itself. */
const UNLOGGED = /^\/v1\/(?:auth|operator|logs)(?:\/|$)/

/**
 * Returns what is called with each response. Logged are writes, refusals, and reads by API key; not the reads of
 * people in the dashboard, streams, and what commands on the machine do. A refused key is logged for its account, also
 * when it was revoked.
 */
export function createHttpRecorder(
  app: App,
  { findOwner }: Pick<Authenticator, 'findOwner'>,
  dialects: readonly Dialect<Actor>[],
): (response: Response, request: EndedRequest) => void {
  const log = getRequestLog(app)
  return ({ status, headers: sent }, request) => {
    const { method, path, headers, error, isSession, isGuest, knownActor, createdId } = request
    const isRefused = status >= 400 || error !== undefined
    if (knownActor !== undefined || isGuest || UNLOGGED.test(path)) return
    if (!isRefused && (method === 'GET' || method === 'HEAD' || method === 'OPTIONS' || READS.test(path))) {
      if (isSession || sent.get('content-type')?.startsWith('text/event-stream')) return
    }
    const dialect = dialects.find(({ speaks }) => speaks(path))
    const kind = (request.via ?? dialect?.name ?? (path.startsWith('/hooks/') ? 'supabase' : 'api')) as RequestKind
    // What a tool of MCP does is logged as the requests that it makes.
    if (kind === 'mcp' && request.via === undefined && !isRefused) return
    const actor = (request.actor as Actor | undefined) ?? findRefusedActor(request, dialect, findOwner)
    if (!actor) return
    log.add({
      accountId: actor.accountId,
      kind,
      method,
      // As a person writes it, so that it is found, and erased with an address in it.
      path: path.includes('%') ? (attempt(() => decodeURIComponent(path)) ?? path) : path,
      status: error && status < 400 ? error.status : status,
      error: error && describeError(error),
      durationMs: request.durationMs,
      actorId: actor.id,
      ipAddress: request.clientIp(),
      userAgent: headers.get('user-agent'),
      requestId: request.requestId,
      emailId: createdId !== undefined && SENDS.test(path) && parseUuid(createdId) ? createdId : undefined,
      body: request.bodySummary,
    })
  }
}

/** Code and sentence; with problems in several fields, which the sentence only counts, each of them. */
const describeError = ({ code, message, details }: AppError) => ({
  code,
  message: details.length < 2 ? message : details.map((detail) => `${detail.field} ${detail.message}`).join('; '),
})

/** Whose key a request has that was refused because of its key. */
function findRefusedActor(
  { headers, error, isSession }: EndedRequest,
  dialect: Dialect<Actor> | undefined,
  findOwner: Authenticator['findOwner'],
): Pick<Actor, 'accountId' | 'id'> | undefined {
  if (isSession || !error || (error.status !== 401 && error.status !== 403)) return undefined
  const key = attempt(() => (dialect?.readApiKey ?? readApiKey)(headers))
  return key === undefined ? undefined : findOwner(key)
}
