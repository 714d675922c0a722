/**
 * @module Events in Mailgun's form. A page begins at a number of the account's feed, which only grows, so pages have no
 * gaps and no doubles while events come. Its URL has that number and the conditions of the first request.
 */
import type { App } from '#features/core/app/app.ts'
import type { FeedEvent } from '#features/core/events/model.ts'
import { type EventData, type EventType, toEventCode } from '#features/core/events/record.ts'
import { readFeed, readFeedRange } from '#features/webhooks/event-feed/feed.ts'
import { readEmailEvent } from '#features/webhooks/webhooks/payload/postmark.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { parseJsonObject } from '#platform/json-object.ts'
import type { Millis } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { parseDate } from '#protocols/mime/header-fields.ts'
import { REQUEST_DOMAIN } from './message.ts'
import type { Call, Query } from './route.ts'

const MAX_LIMIT = 300
const DEFAULT_LIMIT = 100
/** Numbers of a page. A client takes an empty page as the end. */
const MAX_EXAMINED = 2_000_000

type Name = readonly [name: string, severity?: 'permanent' | 'temporary']
const namesOf = (types: readonly EventType[], ...name: Name | []) =>
  types.map((type): [EventType, Name] => [type, name.length === 0 ? [type] : name])
/** Our types of events with the names and severities that they have in Mailgun. */
const NAMES: ReadonlyMap<EventType, Name> = new Map([
  ...namesOf(['queued'], 'accepted'),
  ...namesOf(['deferred'], 'failed', 'temporary'),
  ...namesOf(['bounced', 'failed', 'rejected'], 'failed', 'permanent'),
  ...namesOf(['delivered', 'opened', 'clicked', 'unsubscribed', 'complained']),
])
/** The last two never happen here. */
const KNOWN: ReadonlySet<string> = new Set([...Array.from(NAMES.values(), ([name]) => name), 'rejected', 'stored'])
/** Why an address gets no mail, by Mailgun's codes from 605. Ghost sends no more to one with 605 or 607. */
const SUPPRESSED = ['bounce', 'unsubscribe', 'complaint']

const sql = prepareStatements((db) => ({
  from: db.prepare<{ seq: number; at: Millis }, [number, number]>(
    'SELECT seq, at FROM events WHERE account_id = ? AND seq >= ? ORDER BY seq LIMIT 1',
  ),
}))

/** The first page, or the one that the path names: a URL in `paging`. */
export async function listEvents({ app, actor, domain, url, name: token, query: given, request }: Call) {
  const page = token === undefined ? given : parseJsonObject(Buffer.from(token, 'base64url').toString())
  if (!page) throw invalid('page', 'The page must be one of the URLs in "paging".')
  const query: Query = Object.fromEntries(Object.entries(page).map(([name, value]) => [name, String(value)]))
  const size = given['limit'] ?? query['limit']
  const limit = parseQueryInteger('limit', size, { fallback: DEFAULT_LIMIT, minimum: 1, maximum: MAX_LIMIT })
  const [begin, end] = [readTime('begin', query), readTime('end', query)]
  const { ascending = (begin ?? 1) <= (end ?? 0) ? 'yes' : 'no', position = '' } = query
  const isAscending = /^(?:yes|true)$/i.test(ascending)
  const [earliest, latest] = isAscending ? [begin, end] : [end, begin]
  const { firstSeq, lastSeq } = readFeedRange(app.db, actor.accountId)
  const findFirst = (at: Millis): number => findFirstSince(app, actor.accountId, at, firstSeq, lastSeq)
  const low = earliest === undefined ? firstSeq - 1 : findFirst(earliest) - 1
  const high = latest === undefined ? lastSeq : findFirst(latest + 1) - 1
  const start = /^\d{1,15}$/.test(position) ? Math.max(low, Math.min(Number(position), high)) : isAscending ? low : high
  const types = readTypes(query)
  const matches = createMatcher(query)
  const items: ShownEvent[] = []
  let left = isAscending ? { after: start, upTo: high } : { after: low, upTo: start }
  const least = left.upTo - left.after - MAX_EXAMINED
  let before = start
  while (items.length < limit && left.upTo - left.after > Math.max(0, least)) {
    await yieldFairly(request)
    const range = { ...left, types, limit: limit - items.length }
    const { events, after, upTo } = readFeed(app, actor, range, isAscending ? 'oldest' : 'newest')
    app.workBudget.charge(actor.accountId, 1 + events.length)
    for (const event of events) {
      const item = toEvent(app, actor.accountId, event, domain)
      if (item && matches(item) && items.push(item) === 1) before = isAscending ? event.seq - 1 : event.seq
    }
    left = { after, upTo }
  }
  // Only what is on disk: after a crash no client may know of an event that was lost.
  await app.commit.barrier()
  const toUrl = (of: Query) => `${url}/${Buffer.from(JSON.stringify({ ...query, ...of })).toString('base64url')}`
  const own = { ascending, position: undefined }
  const other = { ...own, ascending: isAscending ? 'no' : 'yes', begin: query['end'], end: query['begin'] }
  return {
    items,
    paging: {
      next: toUrl({ ...own, position: String(isAscending ? left.after : left.upTo) }),
      previous: toUrl({ ...other, position: String(before) }),
      ...{ first: toUrl(own), last: toUrl(other) },
    },
  }
}

/** The number of the first event at or after a time: times grow with the numbers. */
function findFirstSince({ db }: App, accountId: number, at: Millis, firstSeq: number, lastSeq: number): number {
  let [low, high] = [firstSeq, lastSeq + 1]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const found = sql(db).from.get(accountId, middle)
    if (found && found.at < at) low = found.seq + 1
    else high = middle
  }
  return low
}

function readTime(name: string, query: Query): Millis | undefined {
  const text = query[name]
  if (!text) return undefined
  const at = /^\d{1,11}(?:\.\d{1,9})?$/.test(text) ? Math.round(Number(text) * 1000) : parseDate(text)
  if (at === null) throw invalid(name, `${name} must be seconds since 1970, or like Fri, 3 May 2013 09:00:00 -0000.`)
  return at
}

/** The words of an expression such as `(delivered OR failed)`. */
const splitWords = (text: string, operator: string): string[] =>
  text.split(operator).map((word) => word.replace(/[()"']/g, '').trim())

/** A bit per type of our events. */
function readTypes({ event, severity }: Query): number {
  const wanted = event ? new Set(splitWords(event, ' OR ')) : KNOWN
  if (!wanted.isSubsetOf(KNOWN))
    throw invalid('event', `event must be one of ${[...KNOWN].join(', ')}, or several with " OR " between them.`)
  const types = [...NAMES].filter(([, [name, of]]) => wanted.has(name) && (!severity || severity === of))
  return types.reduce((mask, [type]) => mask | (1 << toEventCode(type)), 0)
}

type ShownEvent = NonNullable<ReturnType<typeof toEvent>>

function createMatcher(query: Query): (event: ShownEvent) => boolean {
  const { recipient: address = '', to = '', from = '', subject = '', 'message-id': id = '' } = query
  const tags = query['tags'] ? splitWords(query['tags'], ' AND ').map((part) => splitWords(part, ' OR ')) : []
  if (tags.flat().some((tag) => tag.startsWith('NOT ')))
    throw invalid('tags', 'tags must be tags with " AND " and " OR " between them, without "NOT".')
  const includes = (text: string, part: string): boolean => text.toLowerCase().includes(part.toLowerCase())
  return ({ message: { headers }, recipient, tags: own }) =>
    tags.every((any) => any.some((tag) => own.includes(tag))) &&
    (address === '' || address.toLowerCase() === recipient.toLowerCase()) &&
    (id === '' || id.replace(/[<>]/g, '') === headers['message-id']) &&
    includes(headers.to, to) &&
    includes(headers.from, from) &&
    includes(headers.subject, subject)
}

/** Undefined for an event of another domain, and of an email that is no longer stored. */
function toEvent(app: App, accountId: number, { seq, id, event_type, created_at, raw_payload }: FeedEvent, of: string) {
  const at = Date.parse(created_at)
  const data = (raw_payload ?? {}) as EventData
  const type = event_type as EventType
  const email = readEmailEvent(app.db, accountId, { type, seq, at, data })
  const { [REQUEST_DOMAIN]: domain = domainOfMailbox(email?.from ?? ''), ...variables } = email?.metadata ?? {}
  if (!email || domain !== of) return undefined
  const { from, subject, tags } = email
  const [event = '', severity] = NAMES.get(type) ?? []
  const [to = ''] = email.to()
  const recipient = data.complainer ?? email.recipient ?? to
  const suppressed = type === 'rejected' ? Math.max(0, SUPPRESSED.indexOf(data.suppression ?? '')) : undefined
  const reply = data.suppression ? `Not delivering: ${data.suppression}` : (data.smtp_response ?? data.reason ?? '')
  const [, replyCode, enhanced] = /^(\d{3})(?:[ -](\d\.\d{1,3}\.\d{1,3}))?/.exec(reply) ?? []
  const headers = { 'message-id': email.messageId.replace(/[<>]/g, ''), from, to, subject }
  return {
    ...{ id, event, timestamp: at / 1000, recipient, 'recipient-domain': recipient.replace(/^.*@/, '') },
    ...{ tags, 'user-variables': variables, message: { headers, attachments: [] } },
    'log-level': severity === undefined ? 'info' : severity === 'permanent' ? 'error' : 'warn',
    ...(severity && { severity, reason: suppressed === undefined ? 'generic' : `suppress-${SUPPRESSED[suppressed]}` }),
    flags: { 'is-authenticated': true, 'is-test-mode': false },
    envelope: { transport: 'smtp', sender: from.replace(/^.*<|>$/g, ''), targets: recipient },
    ...((severity || event === 'delivered') && {
      'delivery-status': {
        ...{ code: suppressed === undefined ? Number(replyCode ?? (severity ? 0 : 250)) : 605 + suppressed },
        ...{ message: reply, description: '' },
        ...{ 'enhanced-code': enhanced, 'mx-host': data.remote_mta ?? '', tls: data.tls?.startsWith('TLS') ?? false },
      },
    }),
    ...(data.user_agent !== undefined && { ip: data.ip_address, 'client-info': { 'user-agent': data.user_agent } }),
    ...(data.link_url && { url: data.link_url }),
  }
}
