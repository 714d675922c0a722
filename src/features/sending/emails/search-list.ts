/**
 * @module Lists the emails that match a search, newest first. The search index contains neither operation nor status
 * nor engagement, which change often. A filter by one of these looks them up for the matches, a batch at a time. One
 * request takes limited time, so a page may have fewer rows than requested; a cursor continues where the scan stopped.
 */
import type { Database } from 'bun:sqlite'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import {
  ALL_ROWS,
  ANY_TIME,
  buildMatch,
  type EmailSearch,
  findMatchIds,
  findTimeRange,
  indexPendingEmails,
  isMatch,
  listShards,
  type Match,
  type Shard,
  type TimeRange,
} from '#features/sending/queue/search.ts'
import { engagementBit } from '#features/sending/queue/settle.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { belowTimeAndId, prepareStatements, type RowKey, type RowWindow } from '#platform/db/open.ts'
import { isTransientError } from '#platform/disk/storage-errors.ts'
import { invalid } from '#platform/errors.ts'
import { parseUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { countEmails, type EmailFilter, MAX_COUNTED, readEmailsByIds, type StoredEmail } from './read.ts'

/** Matches examined per step; this takes some 10 ms, and 20 with a filter. */
const BATCH_SIZE = MAX_COUNTED
/** A search that takes longer continues with the next page. */
const MAX_SEARCH_MS = 1000
/** Work units of a batch, and of the look-up in a shard; one unit is the cost of a listed row. */
const BATCH_WORK_UNITS = 100
const SHARD_WORK_UNITS = 2
/** Of so few matches, the dates are looked up one by one, in some 5 ms, instead of finding the row ids of the dates. */
const MAX_DATED_MATCHES = 2000
/** Of so few emails of a status, each is looked up in the index, in some 50 µs, instead of scanning the matches. */
const MAX_LOOKED_UP = 300
/** More than any stored Message-ID has, so a longer one is cut and found nowhere. */
const MAX_MESSAGE_ID_LENGTH = 500

const sql = prepareStatements((db) => ({
  idOfUuid: db.prepare<{ id: number }, [Uint8Array, number]>('SELECT id FROM emails WHERE uuid = ? AND account_id = ?'),
  idOfOperation: db.prepare<{ id: number }, [Uint8Array, number]>(
    'SELECT id FROM operations WHERE uuid = ? AND account_id = ?',
  ),
  // Deleted domains keep their row while they have open mail.
  domains: db.prepare<{ id: number }, [number, string]>('SELECT id FROM domains WHERE account_id = ? AND domain = ?'),
  createdAt: db.prepare<{ at: number }, [number]>('SELECT created_at AS at FROM emails WHERE id = ?'),
  ofStatus: db.prepare<{ id: number }, [number, number, number, number]>(
    'SELECT id FROM emails WHERE account_id = ? AND status = ? AND created_at BETWEEN ? AND ?',
  ),
  // CROSS JOIN makes SQLite begin with the matches and look up each email by its row id.
  among: db.prepare<{ id: number }, [string, number | null, number | null, number | null, Millis, Millis]>(
    `SELECT emails.id FROM json_each(?1) CROSS JOIN emails ON emails.id = json_each.value
     WHERE status = coalesce(?2, status) AND (?3 IS NULL OR operation_id = ?3) AND (?4 IS NULL OR engagement & ?4 <> 0)
     AND created_at BETWEEN ?5 AND ?6 ORDER BY emails.id DESC`,
  ),
}))

export interface SearchResult {
  readonly emails: readonly StoredEmail[]
  /** At most MAX_COUNTED. With a filter by status, engagement or operation: the number of emails found so far. */
  readonly total: number
  readonly hasMore: boolean
  /** Where the next page starts. */
  readonly lastKey: RowKey | undefined
}

/** The search parameters as requested: Message-ID, stream slug and domain name are texts. */
type SearchText = {
  readonly [Field in 'q' | 'to' | 'from' | 'subject' | 'tag' | 'stream' | 'domain' | 'message_id']?: string | undefined
}

/** Parses the search parameters; undefined if all are absent. Throws a 422 for an unknown stream or domain. */
export function parseSearch(db: Database, accountId: number, text: SearchText): ParsedSearch | undefined {
  const { q, to, from, subject, tag, stream, domain, message_id: messageId } = text
  if ([q, to, from, subject, tag, stream, domain, messageId].every((value) => value === undefined)) return undefined
  const streamId = stream === undefined ? undefined : findStreamId(db, accountId, stream)
  if (stream !== undefined && streamId === undefined)
    throw invalid('stream', `There is no stream "${stream.slice(0, 100)}" on this account; GET /v1/streams lists them.`)
  const domainIds = domain === undefined ? undefined : findDomainIds(db, accountId, domain)
  const byId = q === undefined ? undefined : findByMessageId(db, accountId, q)
  const byMessageId = messageId === undefined ? undefined : findByMessageId(db, accountId, messageId)
  return {
    ...{ to, from, subject, tag, streamId, domainIds },
    text: byId === undefined ? q : undefined,
    clientMessageId: messageId !== undefined && byMessageId === undefined ? `<${stripBrackets(messageId)}>` : undefined,
    emailIds: [byId, byMessageId].filter((id) => id !== undefined),
  }
}

/** Row ids of the account's domains with this name. Throws a 422 if there is none. */
function findDomainIds(db: Database, accountId: number, text: string): number[] {
  const mailbox = parseMailbox(`x@${text.trim().replace(/\.$/, '')}`)
  const rows = mailbox.kind === 'ok' ? sql(db).domains.all(accountId, mailbox.domain) : []
  if (rows.length > 0) return rows.map(({ id }) => id)
  throw invalid(
    'domain',
    `There is no domain "${text.slice(0, 100)}" on this account; GET /v1/domains lists them. To search by the domain of the sender, use from=@example.com.`,
  )
}

const stripBrackets = (text: string): string => text.trim().replace(/^<|>$/g, '').slice(0, MAX_MESSAGE_ID_LENGTH)

/**
 * The row id of the email that an id, or a Message-ID of ours, names. Also clients put UUIDs into Message-IDs, so one
 * that names no email of ours may still be that of a client.
 */
function findByMessageId(db: Database, accountId: number, text: string): number | undefined {
  const uuid = parseUuid(stripBrackets(text).split('@')[0] ?? '')
  return uuid && sql(db).idOfUuid.get(uuid, accountId)?.id
}

interface ParsedSearch extends EmailSearch {
  /** Row ids that an id, or a Message-ID of ours, names: one, two that differ and so have no match, or none. */
  readonly emailIds?: readonly number[]
}

interface Query {
  readonly accountId: number
  readonly match: Match
  readonly emailIds: readonly number[]
  readonly operationId: number | undefined
  readonly filter: EmailFilter
}

interface MatchPage {
  readonly ids: readonly number[]
  readonly total: number
  /** Where the scan stopped before the page was full; undefined if all matches were examined or the page is full. */
  readonly stoppedAt?: number | undefined
}

/** Reads a page of the emails that match a search and a filter. */
export async function searchEmails(
  app: App,
  accountId: number,
  { filter, search }: { readonly filter: EmailFilter; readonly search: ParsedSearch },
  page: RowWindow,
): Promise<SearchResult> {
  const { db } = app
  const match = buildMatch(accountId, search)
  await updateIndex(app)
  const operationId = filter.operation && sql(db).idOfOperation.get(filter.operation, accountId)?.id
  if (filter.operation !== undefined && operationId === undefined)
    return { emails: [], total: 0, hasMore: false, lastKey: undefined }
  const query = { accountId, match, emailIds: search.emailIds ?? [], operationId, filter }
  const few = await findFew(app, query)
  const { ids, total, stoppedAt } = few ? toPage(db, query, few, page) : await scanForPage(app, query, page)
  const emails = readEmailsByIds(db, ids.slice(0, page.limit))
  const last = emails.at(-1)
  if (ids.length > page.limit || stoppedAt === undefined)
    return { emails, total, hasMore: ids.length > page.limit, lastKey: last && [last.createdAt, last.id] }
  return { emails, total, hasMore: true, lastKey: [sql(db).createdAt.get(stoppedAt)?.at ?? 0, stoppedAt] }
}

/** Indexes pending emails. While nothing can be written, a search finds only what was indexed before. */
export async function updateIndex(app: App): Promise<void> {
  try {
    await indexPendingEmails(app)
  } catch (error) {
    if (!isTransientError(error)) throw error
  }
}

/** Every match, and perhaps emails that the filter excludes, if an id, a status or the search leaves few. */
async function findFew(app: App, query: Query): Promise<readonly number[] | undefined> {
  const { accountId, match, emailIds, filter } = query
  const { status, from, to } = filter
  if (emailIds.length > 0)
    return new Set(emailIds).size > 1 ? [] : emailIds.slice(0, 1).filter((id) => isMatch(app.db, match, id))
  if (status !== undefined && countEmails(app.db, accountId, status, from, to) <= MAX_LOOKED_UP)
    return sql(app.db)
      .ofStatus.all(accountId, statusCode(status), from, to)
      .map(({ id }) => id)
      .filter((id) => isMatch(app.db, match, id))
  if (from <= ANY_TIME.from && to >= ANY_TIME.to) return undefined
  const found: number[] = []
  const stoppedAt = await scanMatches(app, query, ALL_ROWS, (ids) => {
    found.push(...ids)
    return found.length > MAX_DATED_MATCHES
  })
  return stoppedAt === undefined && found.length <= MAX_DATED_MATCHES ? found : undefined
}

function filterIds(
  db: Database,
  { operationId, filter: { status, engagement, from, to } }: Query,
  ids: readonly number[],
): number[] {
  const code = status === undefined ? null : statusCode(status)
  const bit = engagement === undefined ? null : engagementBit(engagement)
  return sql(db)
    .among.all(JSON.stringify(ids), code, operationId ?? null, bit, from, to)
    .map(({ id }) => id)
}

const lastIdOf = (page: RowWindow): number => belowTimeAndId(page)[1] - 1

function toPage(db: Database, query: Query, matches: readonly number[], page: RowWindow): MatchPage {
  const ids = filterIds(db, query, matches)
  const below = ids.filter((id) => id <= lastIdOf(page))
  return { ids: below.slice(page.offset, page.offset + page.limit + 1), total: ids.length }
}

/** Scans the matches, newest first, until the page is full and, without a status, an engagement or an operation, all are counted. */
async function scanForPage(app: App, query: Query, page: RowWindow): Promise<MatchPage> {
  const { accountId, operationId, filter } = query
  const range = findTimeRange(app.db, accountId, filter.from, filter.to)
  if (!range) return { ids: [], total: 0 }
  const below = { ...range, last: Math.min(range.last, lastIdOf(page)) }
  const limit = page.offset + page.limit + 1
  const hits: number[] = []
  const isFiltered = filter.status !== undefined || operationId !== undefined || filter.engagement !== undefined
  const isFirst = page.after === undefined
  let counted = 0
  const take = (ids: readonly number[]) => {
    counted += ids.length
    const found = isFiltered ? filterIds(app.db, query, ids) : ids
    hits.push(...found.slice(0, Math.max(0, limit - hits.length)))
    return hits.length >= limit
  }
  if (!isFiltered && !isFirst)
    await scanMatches(app, query, range, (ids) => {
      counted += ids.length
      return counted >= MAX_COUNTED
    })
  const total = counted
  const stoppedAt = await scanMatches(
    app,
    query,
    below,
    (ids) => take(ids) && (isFiltered || !isFirst || counted >= MAX_COUNTED),
  )
  const found = isFiltered ? hits.length + (isFirst ? 0 : 1) : isFirst ? counted : total
  return {
    ids: hits.slice(page.offset, limit),
    total: Math.min(MAX_COUNTED, found),
    stoppedAt: hits.length >= limit ? undefined : stoppedAt,
  }
}

/**
 * Calls `visit` with the row ids of matches, newest first, until it returns true. Returns the row id at which it
 * stopped because of the time, undefined otherwise.
 */
export async function scanMatches(
  app: App,
  { accountId, match }: Pick<Query, 'accountId' | 'match'>,
  range: TimeRange,
  visit: (ids: readonly number[]) => boolean,
): Promise<number | undefined> {
  const endMs = app.clock.monotonicMs() + MAX_SEARCH_MS
  let next: Shard | undefined
  let isEnough = false
  let stoppedAt: number | undefined
  function* listParts(): Generator<Shard> {
    for (const shard of listShards(app.db, match, range))
      for (next = shard; next; ) {
        if (app.clock.monotonicMs() > endMs) stoppedAt = next.last + 1
        if (isEnough || stoppedAt !== undefined) return
        yield next
      }
  }
  await app.fairScheduler.forEach(
    getTenantId(app.db, accountId),
    listParts(),
    (part) => {
      const ids = findMatchIds(app.db, match, part, range.time, BATCH_SIZE)
      app.workBudget.charge(accountId, SHARD_WORK_UNITS + (BATCH_WORK_UNITS * ids.length) / BATCH_SIZE)
      const last = ids.length < BATCH_SIZE ? undefined : ids.at(-1)
      next = last === undefined ? undefined : { ...part, last: last - 1 }
      isEnough = visit(ids)
    },
    { isNew: false },
  )
  return stoppedAt
}
