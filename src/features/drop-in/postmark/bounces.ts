/**
 * @module Bounces and complaints in Postmark's form. Each is an event of the account, and its number there is the id of
 * the bounce. Lists are read from the newest event backwards, in limited steps.
 */
import type { App } from '#features/core/app/app.ts'
import { type EventData, type EventType, toEventCode, toEventType } from '#features/core/events/record.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { TOTAL_METRIC } from '#features/setup/suppression-store/suppress.ts'
import { findNewestUpTo, readFeedRange } from '#features/webhooks/event-feed/feed.ts'
import { toBounceFields, toSlug, toStreamName } from '#features/webhooks/webhooks/payload/postmark.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { invalid, notFound } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { createQueryReader, isInTime, type Query, readTimes, readWindow } from './fields.ts'

const INVALID_QUERY = 'invalid_bounce_query'
const TYPES: readonly EventType[] = ['bounced', 'complained']
const TYPE_MASK = TYPES.reduce((mask, type) => mask | (1 << toEventCode(type)), 0)

/** Events examined at a time: some milliseconds. */
const BATCH_SIZE = 500
const MAX_EXAMINED = 100_000

interface Row {
  seq: number
  type: number
  at: number
  data: string | null
  uuid: Uint8Array | null
  from: string | null
  subject: string | null
  extra: string | null
  stream: string | null
  address: string | null
}

const SELECT = `SELECT seq, events.type, at, data, emails.uuid, from_address AS "from", subject, extra, slug AS stream, address
  FROM events LEFT JOIN emails ON emails.id = events.email_id LEFT JOIN streams ON streams.id = emails.stream_id
  LEFT JOIN recipients ON recipients.id = events.recipient_id
  WHERE events.account_id = ?1 AND (1 << events.type) & ${TYPE_MASK}`

const sql = prepareStatements((db) => ({
  page: db.prepare<Row, [number, number, number]>(`${SELECT} AND seq > ?2 AND seq <= ?3 ORDER BY seq DESC`),
  one: db.prepare<Row, [number, number]>(`${SELECT} AND seq = ?2`),
  count: db.prepare<{ n: number | null }, [number, string]>(
    'SELECT SUM(value) AS n FROM counters WHERE account_id = ? AND metric = ?',
  ),
}))

export type Bounce = ReturnType<typeof toBounce>

function toBounce({ db }: App, accountId: number, { type, seq, at, ...row }: Row) {
  const data = JSON.parse(row.data ?? '{}') as EventData
  const { tags } = JSON.parse(row.extra ?? '{}') as { readonly tags?: readonly string[] }
  const address = row.address ?? data.complainer ?? ''
  const isInactive = suppressionOf(db, { accountId, address, transactional: true, streamId: 0 }) !== undefined
  const event = { type: toEventType(type), seq, at, data, from: row.from ?? '', subject: row.subject ?? '' }
  return {
    RecordType: 'Bounce' as const,
    ...toBounceFields(event, address, isInactive),
    Tag: tags?.[0] ?? '',
    MessageID: row.uuid === null ? '' : formatUuid(row.uuid),
    ServerID: accountId,
    Content: '',
    MessageStream: row.stream === null ? '' : toStreamName(row.stream),
  }
}

/** Creates the condition of a list; undefined: every bounce matches. */
function readFilter(read: ReturnType<typeof createQueryReader>): ((bounce: Bounce, at: number) => boolean) | undefined {
  const [type, inactive, email, tag, id, stream] = [
    read('type'),
    read('inactive')?.toLowerCase(),
    read('emailfilter')?.toLowerCase(),
    read('tag'),
    read('messageid')?.toLowerCase(),
    read('messagestream'),
  ]
  const times = readTimes(read, INVALID_QUERY)
  if (inactive !== undefined && inactive !== 'true' && inactive !== 'false')
    throw invalid('inactive', 'inactive must be true or false.', INVALID_QUERY)
  if ([type, inactive, email, tag, id, stream, times.from, times.to].every((value) => value === undefined))
    return undefined
  return (bounce, at) =>
    (type === undefined || bounce.Type.toLowerCase() === type.toLowerCase()) &&
    (inactive === undefined || String(bounce.Inactive) === inactive) &&
    (email === undefined || bounce.Email.toLowerCase().includes(email)) &&
    (tag === undefined || bounce.Tag === tag) &&
    (id === undefined || bounce.MessageID === id) &&
    (stream === undefined || toSlug(bounce.MessageStream) === toSlug(stream)) &&
    isInTime(at, times)
}

const countEvents = ({ db }: App, accountId: number, metric: string): number =>
  sql(db).count.get(accountId, metric)?.n ?? 0

const countAll = (app: App, accountId: number): number =>
  TYPES.reduce((sum, type) => sum + countEvents(app, accountId, `event:${type}`), 0)

/**
 * A page of bounces, newest first. With a filter, the total is the number found so far.
 * @param yieldFairly resolves when the account may go on
 */
export async function listBounces(
  app: App,
  accountId: number,
  query: Query,
  yieldFairly: () => Promise<void>,
): Promise<{ readonly TotalCount: number; readonly Bounces: readonly Bounce[] }> {
  const read = createQueryReader(query)
  const { limit, offset } = readWindow(read, INVALID_QUERY)
  const matches = readFilter(read)
  const { firstSeq, lastSeq } = readFeedRange(app.db, accountId)
  const found: Bounce[] = []
  let position = findNewestUpTo(app.db, accountId, lastSeq)
  for (let examined = 0; position >= firstSeq && examined < MAX_EXAMINED && found.length < offset + limit; ) {
    await yieldFairly()
    const after = Math.max(firstSeq - 1, position - BATCH_SIZE)
    const rows = sql(app.db).page.all(accountId, after, position)
    app.workBudget.charge(accountId, 1 + rows.length)
    for (const row of rows) {
      const bounce = toBounce(app, accountId, row)
      if (!matches || matches(bounce, row.at)) found.push(bounce)
    }
    examined += position - after
    // Numbers that no event has, after a restored backup, are not searched.
    position = findNewestUpTo(app.db, accountId, after)
  }
  return {
    TotalCount: matches ? found.length : Math.max(found.length, countAll(app, accountId)),
    Bounces: found.slice(offset, offset + limit),
  }
}

export function getBounce(app: App, accountId: number, id: string): Bounce {
  const row = /^\d{1,15}$/.test(id) ? sql(app.db).one.get(accountId, Number(id)) : null
  if (!row) throw notFound('bounce_not_found', 'There is no bounce with this ID, or it is no longer stored.')
  return toBounce(app, accountId, row)
}

export function readDeliveryStats(app: App, accountId: number) {
  const complaints = countEvents(app, accountId, 'event:complained')
  return {
    InactiveMails: countEvents(app, accountId, TOTAL_METRIC),
    Bounces: [
      { Name: 'All', Count: countAll(app, accountId) },
      ...(complaints > 0 ? [{ Type: 'SpamComplaint', Name: 'Spam complaint', Count: complaints }] : []),
    ],
  }
}
