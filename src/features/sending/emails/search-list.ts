/**
 * @module Lists the emails that match a search, newest first. The search index contains neither operation nor status
 * nor engagement, which change often. A filter by one of these looks them up for the matches, a batch at a time. One request
 * examines a limited number of emails, so a page may have fewer rows than requested; a cursor continues where the
 * scan stopped.
 */
import type { Database } from 'bun:sqlite'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import {
  ALL_ROWS,
  ANY_TIME,
  buildMatch,
  countMatches,
  type EmailSearch,
  findMatchIds,
  findTimeRange,
  indexPendingEmails,
  isMatch,
  type TimeRange,
} from '#features/sending/queue/search.ts'
import { type Engagement, engagementBit } from '#features/sending/queue/settle.ts'
import { type Status, statusCode } from '#features/sending/queue/status.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { belowTimeAndId, type RowKey, type RowWindow } from '#platform/db/row-window.ts'
import { isTransientError } from '#platform/disk/storage-errors.ts'
import { invalid } from '#platform/errors.ts'
import { parseUuid } from '#platform/ids.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { countEmails, type EmailFilter, MAX_COUNTED, readEmailsByIds, type StoredEmail } from './read.ts'

/** Matches examined per tick; this takes some 10 ms. */
const BATCH_SIZE = 5000
const MAX_BATCHES = 200
/** Work units of a batch; one unit is the cost of a listed row. */
const BATCH_WORK_UNITS = 50
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
  ofStatus: db.prepare<{ id: number; operationId: number | null }, [number, number, number, number]>(
    `SELECT id, operation_id AS operationId FROM emails WHERE account_id = ? AND status = ? AND created_at BETWEEN ? AND ?
     ORDER BY id DESC`,
  ),
  // CROSS JOIN makes SQLite begin with the matches and look up each email by its row id.
  among: db.prepare<{ id: number }, [string, number | null, number | null, number | null]>(
    `SELECT emails.id FROM json_each(?1) CROSS JOIN emails ON emails.id = json_each.value
     WHERE status = coalesce(?2, status) AND (?3 IS NULL OR operation_id = ?3)
     AND (?4 IS NULL OR engagement & ?4 <> 0) ORDER BY emails.id DESC`,
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
  readonly [Field in 'to' | 'from' | 'subject' | 'tag' | 'stream' | 'domain' | 'message_id']?: string | undefined
}

/** Ends before the domain of an address, so it can only be how one begins. */
const isPrefix = (text: string | undefined): text is string => text !== undefined && /^[^@]+@?$/.test(text.trim())

/**
 * Parses the search parameters; undefined if all are absent. Throws a 422 for an unknown stream or domain.
 * @param options.allowsPrefixes whether `to` and `from` may be how an address begins
 */
export function parseSearch(
  db: Database,
  accountId: number,
  text: SearchText,
  { allowsPrefixes = false }: { readonly allowsPrefixes?: boolean } = {},
): ParsedSearch | undefined {
  const { to, from, subject, tag, stream, domain, message_id: messageId } = text
  if ([to, from, subject, tag, stream, domain, messageId].every((value) => value === undefined)) return undefined
  const streamId = stream === undefined ? undefined : findStreamId(db, accountId, stream)
  if (stream !== undefined && streamId === undefined)
    throw invalid('stream', `There is no stream "${stream.slice(0, 100)}" on this account; GET /v1/streams lists them.`)
  return {
    ...(allowsPrefixes && isPrefix(to) ? { toPrefix: to } : { to }),
    ...(allowsPrefixes && isPrefix(from) ? { fromPrefix: from } : { from }),
    subject,
    tag,
    streamId,
    domainIds: domain === undefined ? undefined : findDomainIds(db, accountId, domain),
    ...(messageId !== undefined && parseMessageId(db, accountId, messageId)),
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

/** Also clients put UUIDs into Message-IDs, so one that names no email of ours may still be that of a client. */
function parseMessageId(
  db: Database,
  accountId: number,
  text: string,
): Pick<ParsedSearch, 'emailId' | 'clientMessageId'> {
  const bare = text.trim().replace(/^<|>$/g, '').slice(0, MAX_MESSAGE_ID_LENGTH)
  const uuid = parseUuid(bare.split('@')[0] ?? '')
  const email = uuid && sql(db).idOfUuid.get(uuid, accountId)
  return email ? { emailId: email.id } : { clientMessageId: `<${bare}>` }
}

interface ParsedSearch extends EmailSearch {
  /** Row id of the email that a Message-ID of ours names. */
  readonly emailId?: number | undefined
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
  const range = findRange(db, accountId, { ...filter, match, emailId: search.emailId })
  const operationId = filter.operation && sql(db).idOfOperation.get(filter.operation, accountId)?.id
  const isKnown = filter.operation === undefined || operationId !== undefined
  if (!range || !isKnown) return { emails: [], total: 0, hasMore: false, lastKey: undefined }
  const below = { ...range, last: Math.min(range.last, belowTimeAndId(page)[1] - 1) }
  const { status, engagement } = filter
  const listMatches = (): MatchPage => ({
    ids: findMatchIds(db, match, below, { limit: page.limit + 1, offset: page.offset }),
    total: countMatches(db, match, range, MAX_COUNTED),
  })
  const { ids, total, stoppedAt } =
    status === undefined && operationId === undefined && engagement === undefined
      ? listMatches()
      : status !== undefined &&
          engagement === undefined &&
          countEmails(db, accountId, status, filter.from, filter.to) <= MAX_LOOKED_UP
        ? examineStatus(db, { accountId, match, status, operationId, range, filter }, below.last, page)
        : await examineMatches(app, { accountId, match, status, engagement, operationId, range: below }, page)
  const emails = readEmailsByIds(db, ids.slice(0, page.limit))
  const last = emails.at(-1)
  if (ids.length > page.limit || stoppedAt === undefined)
    return { emails, total, hasMore: ids.length > page.limit, lastKey: last && [last.createdAt, last.id] }
  return { emails, total, hasMore: true, lastKey: [sql(db).createdAt.get(stoppedAt)?.at ?? 0, stoppedAt] }
}

/** Indexes pending emails. While nothing can be written, a search finds only what was indexed before. */
async function updateIndex(app: App): Promise<void> {
  try {
    await indexPendingEmails(app)
  } catch (error) {
    if (!isTransientError(error)) throw error
  }
}

/** The row ids that the date filter and a Message-ID of ours allow; undefined if there are none. */
function findRange(
  db: Database,
  accountId: number,
  { from, to, match, emailId }: EmailFilter & { readonly match: string; readonly emailId: number | undefined },
): TimeRange | undefined {
  if (emailId !== undefined) return { first: emailId, last: emailId, time: { from, to } }
  if (from <= ANY_TIME.from && to >= ANY_TIME.to) return ALL_ROWS
  const isRare = countMatches(db, match, ALL_ROWS, MAX_DATED_MATCHES + 1) <= MAX_DATED_MATCHES
  return isRare ? { ...ALL_ROWS, time: { from, to } } : findTimeRange(db, accountId, from, to)
}

interface MatchQuery {
  readonly accountId: number
  readonly match: string
  readonly status: Status | undefined
  readonly engagement?: Engagement | undefined
  readonly operationId: number | undefined
  readonly range: TimeRange
}

/** Looks up each of the few emails of a status in the index. */
function examineStatus(
  db: Database,
  query: MatchQuery & { readonly status: Status; readonly filter: EmailFilter },
  last: number,
  page: RowWindow,
): MatchPage {
  const { accountId, match, status, operationId, range, filter } = query
  const ids = sql(db)
    .ofStatus.all(accountId, statusCode(status), filter.from, filter.to)
    .filter((row) => operationId === undefined || row.operationId === operationId)
    .filter(({ id }) => id >= range.first && id <= range.last && isMatch(db, match, id))
    .map(({ id }) => id)
  const below = ids.filter((id) => id <= last)
  return { ids: below.slice(page.offset, page.offset + page.limit + 1), total: ids.length }
}

/** Scans the matches, newest first, for a status or an operation until the page is full. */
async function examineMatches(
  app: App,
  { accountId, match, status, engagement, operationId, range }: MatchQuery,
  page: RowWindow,
): Promise<MatchPage> {
  const owner = getTenantId(app.db, accountId)
  const hitLimit = page.offset + page.limit + 1
  const hits: number[] = []
  let { last } = range
  let stoppedAt: number | undefined
  for (let batch = 0; hits.length < hitLimit; batch++) {
    if (batch === MAX_BATCHES) {
      stoppedAt = last + 1
      break
    }
    const found = await app.fairScheduler.resume(owner, () => {
      const ids = findMatchIds(app.db, match, { ...range, last }, { limit: BATCH_SIZE })
      const code = status === undefined ? null : statusCode(status)
      const bit = engagement === undefined ? null : engagementBit(engagement)
      for (const { id } of sql(app.db).among.all(JSON.stringify(ids), code, operationId ?? null, bit)) hits.push(id)
      return ids
    })
    app.workBudget.charge(accountId, (BATCH_WORK_UNITS * found.length) / BATCH_SIZE)
    const oldest = found.at(-1)
    if (found.length < BATCH_SIZE || oldest === undefined) break
    last = oldest - 1
  }
  const before = page.after === undefined ? 0 : 1
  return { ids: hits.slice(page.offset, hitLimit), total: Math.min(MAX_COUNTED, hits.length + before), stoppedAt }
}
