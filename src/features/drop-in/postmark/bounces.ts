/**
 * @module Bounces and complaints in Postmark's form. Each is an event of the account, and its number there is the id of
 * the bounce. Lists are read from the newest event backwards, in limited steps.
 */
import { removeSuppression } from '#features/audience/suppressions/suppressions.ts'
import type { FeedEvent } from '#features/core/events/model.ts'
import { type EventData, type EventType, toEventCode } from '#features/core/events/record.ts'
import { suppressionOf } from '#features/setup/suppression-store/check.ts'
import { TOTAL_METRIC } from '#features/setup/suppression-store/suppress.ts'
import { readFeed, readFeedRange } from '#features/webhooks/event-feed/feed.ts'
import { readEmailEvent, toBounceFields, toSlug, toStreamName } from '#features/webhooks/webhooks/payload/postmark.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { conflict, invalid, notFound } from '#platform/errors.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { type Call, isInTime, on, readTimes, readWindow } from './route.ts'

const INVALID_QUERY = 'invalid_bounce_query'
const TYPES: readonly EventType[] = ['bounced', 'complained']
const TYPE_MASK = TYPES.reduce((mask, type) => mask | (1 << toEventCode(type)), 0)
const FILTERS = ['type', 'inactive', 'emailfilter', 'tag', 'messageid', 'messagestream', 'fromdate', 'todate']

/** Bounces of a batch, and batches of a list: a batch examines 1,000 events at most, in some milliseconds. */
const BATCH_SIZE = 100
const MAX_BATCHES = 1000

const sql = prepareStatements((db) => ({
  count: db.prepare<{ n: number | null }, [number, string]>(
    'SELECT SUM(value) AS n FROM counters WHERE account_id = ? AND metric = ?',
  ),
}))

export type Bounce = ReturnType<typeof toBounce>

function toBounce(
  { app: { db }, accountId }: Call,
  { seq, event_type, created_at, recipient, raw_payload }: FeedEvent,
) {
  const data = (raw_payload ?? {}) as EventData
  const event = { type: event_type as EventType, seq, at: Date.parse(created_at), data }
  // Absent when the email is no longer stored.
  const email = readEmailEvent(db, accountId, event)
  const { from = '', subject = '', tags = [], stream } = email ?? {}
  const address = recipient ?? data.complainer ?? ''
  const isInactive = suppressionOf(db, { accountId, address, transactional: true, streamId: 0 }) !== undefined
  return {
    RecordType: 'Bounce' as const,
    ...toBounceFields({ ...event, from, subject }, address, isInactive),
    Tag: tags[0] ?? '',
    MessageID: email?.emailId ?? '',
    ServerID: accountId,
    Content: '',
    MessageStream: stream === undefined ? '' : toStreamName(stream),
  }
}

/** Creates the condition of a list. */
function createFilter(call: Call): (bounce: Bounce) => boolean {
  const { read } = call
  const times = readTimes(call, INVALID_QUERY)
  const inactive = read('inactive')?.toLowerCase()
  if (inactive !== undefined && inactive !== 'true' && inactive !== 'false')
    throw invalid('inactive', 'inactive must be true or false.', INVALID_QUERY)
  const is = (name: string, value: string) => (read(name) ?? value).toLowerCase() === value.toLowerCase()
  return ({ Type, Inactive, Email, Tag, MessageID, MessageStream, BouncedAt }) =>
    is('type', Type) &&
    (inactive ?? String(Inactive)) === String(Inactive) &&
    Email.toLowerCase().includes(read('emailfilter')?.toLowerCase() ?? '') &&
    (read('tag') ?? Tag) === Tag &&
    is('messageid', MessageID) &&
    toSlug(read('messagestream') ?? MessageStream) === toSlug(MessageStream) &&
    isInTime(Date.parse(BouncedAt), times)
}

const countEvents = ({ app: { db }, accountId }: Call, metric: string): number =>
  sql(db).count.get(accountId, metric)?.n ?? 0

const countAll = (call: Call): number => TYPES.reduce((sum, type) => sum + countEvents(call, `event:${type}`), 0)

/** A page of bounces, newest first. With a filter, the total is the number found so far. */
export async function listBounces(call: Call) {
  const { app, actor, accountId, read, request } = call
  const { limit, offset } = readWindow(call, INVALID_QUERY)
  const matches = createFilter(call)
  const { firstSeq, lastSeq } = readFeedRange(app.db, accountId)
  const found: Bounce[] = []
  let left = { after: firstSeq - 1, upTo: lastSeq }
  for (let batch = 0; left.after < left.upTo && batch < MAX_BATCHES && found.length < offset + limit; batch++) {
    await yieldFairly(request)
    const { events, after, upTo } = readFeed(app, actor, { ...left, types: TYPE_MASK, limit: BATCH_SIZE }, 'newest')
    app.workBudget.charge(accountId, 1 + events.length)
    found.push(...events.map((event) => toBounce(call, event)).filter(matches))
    left = { after, upTo }
  }
  const isFiltered = FILTERS.some((name) => read(name) !== undefined)
  return {
    TotalCount: isFiltered ? found.length : Math.max(found.length, countAll(call)),
    Bounces: found.slice(offset, offset + limit),
  }
}

function getBounce(call: Call): Bounce {
  const { app, actor, id } = call
  const upTo = /^\d{1,15}$/.test(id) ? Number(id) : 0
  const [event] = readFeed(app, actor, { after: upTo - 1, upTo, types: TYPE_MASK, limit: 1 }, 'newest').events
  if (!event) throw notFound('bounce_not_found', 'There is no bounce with this ID, or it is no longer stored.')
  return toBounce(call, event)
}

export function readDeliveryStats(call: Call) {
  const complaints = countEvents(call, 'event:complained')
  return {
    InactiveMails: countEvents(call, TOTAL_METRIC),
    Bounces: [
      { Name: 'All', Count: countAll(call) },
      ...(complaints > 0 ? [{ Type: 'SpamComplaint', Name: 'Spam complaint', Count: complaints }] : []),
    ],
  }
}

export const bounceRoutes = [
  // The client of npm writes the former, the documents of Postmark the latter.
  on('GET /deliveryStats', 'emails:read', readDeliveryStats),
  on('GET /deliverystats', 'emails:read', readDeliveryStats),
  on('GET /bounces', 'emails:read', listBounces),
  on('GET /bounces/:id', 'emails:read', getBounce),
  on('GET /bounces/:id/dump', 'emails:read', (call) => ({ Body: getBounce(call) && '' })),
  on('PUT /bounces/:id/activate', 'suppressions:write', async (call) => {
    const { CanActivate, Inactive, Email } = getBounce(call)
    if (!CanActivate)
      throw conflict(
        'bounce_not_activated',
        Inactive
          ? 'Addresses that complained are not activated here; DELETE /v1/suppressions/{email} removes them.'
          : 'The address of this bounce is not suppressed.',
      )
    await removeSuppression(call.app, call.actor, Email)
    return { Message: 'OK', Bounce: getBounce(call) }
  }),
]
