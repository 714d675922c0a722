/**
 * @module Events in Mailgun's form. A page begins at a number of the account's feed, which only grows, so pages have no
 * gaps and no doubles while events come. Its URL has that number and the conditions of the first request.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import type { FeedEvent } from '#features/core/events/model.ts'
import { type EventData, type EventType, toEventCode } from '#features/core/events/record.ts'
import { readFeed, readFeedRange } from '#features/webhooks/event-feed/feed.ts'
import { readEmailEvent } from '#features/webhooks/webhooks/payload/postmark.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { parseQueryInteger } from '#platform/http/schemas.ts'
import { parseJsonObject } from '#platform/json-object.ts'
import type { Millis } from '#platform/time/clock.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { parseDate } from '#protocols/mime/header-fields.ts'
import { REQUEST_DOMAIN } from './message.ts'

const MAX_LIMIT = 300
const DEFAULT_LIMIT = 100
/** Numbers that `readFeed` examines at most. */
const BATCH_SIZE = 1000
/** Of a page. A client takes an empty page as the end. */
const MAX_EXAMINED = 2_000_000

/** Ours that Mailgun has, too; the last five have the same name there. */
const PERMANENT: readonly EventType[] = ['bounced', 'failed', 'rejected']
const SAME: readonly EventType[] = ['delivered', 'opened', 'clicked', 'unsubscribed', 'complained']
const TYPES: readonly EventType[] = ['queued', 'deferred', ...PERMANENT, ...SAME]
/** Mailgun's; the last two never happen here. */
const NAMES: readonly string[] = ['accepted', 'failed', ...SAME, 'rejected', 'stored']
/** Why an address gets no mail, by Mailgun's codes from 605. Ghost sends no more to one with 605 or 607. */
const SUPPRESSED = ['bounce', 'unsubscribe', 'complaint']

function nameOf(type: EventType): readonly [name: string, severity?: 'permanent' | 'temporary'] {
  if (type === 'queued') return ['accepted']
  if (type === 'deferred') return ['failed', 'temporary']
  return PERMANENT.includes(type) ? ['failed', 'permanent'] : [type]
}

const sql = prepareStatements((db) => ({
  from: db.prepare<{ seq: number; at: Millis }, [number, number]>(
    'SELECT seq, at FROM events WHERE account_id = ? AND seq >= ? ORDER BY seq LIMIT 1',
  ),
}))

export interface EventSource {
  readonly app: App
  readonly actor: Actor
  readonly domain: string
  /** URL of the list, without a query. */
  readonly url: string
  /** Resolves when the account may go on. */
  readonly yieldFairly: () => Promise<void>
}

type Query = Readonly<Record<string, string | undefined>>

/** @param token that of a URL in `paging`; undefined: the first page */
export async function listEvents({ app, actor, domain, url, yieldFairly }: EventSource, query: Query, token?: string) {
  const page = token === undefined ? {} : parseJsonObject(Buffer.from(token, 'base64url').toString())
  if (!page) throw invalid('page', 'The page must be one of the URLs in "paging".')
  const texts = Object.entries(page).filter(([, value]) => typeof value === 'string')
  const { direction, position = '', ...first }: Query = Object.fromEntries(texts) as Query
  const wanted: Query = { ...first, ...query }
  const limit = parseQueryInteger('limit', wanted['limit'], { fallback: DEFAULT_LIMIT, minimum: 1, maximum: MAX_LIMIT })
  const [begin, end] = [readTime('begin', wanted), readTime('end', wanted)]
  const { ascending = (begin ?? 1) <= (end ?? 0) ? 'yes' : 'no' } = wanted
  const isFirstAscending = /^(?:yes|true)$/i.test(ascending)
  const isAscending = direction === undefined ? isFirstAscending : direction === 'up'
  const [earliest, latest] = isFirstAscending ? [begin, end] : [end, begin]
  const { firstSeq, lastSeq } = readFeedRange(app.db, actor.accountId)
  const findFirst = (at: Millis): number => findFirstSince(app, actor.accountId, at, firstSeq, lastSeq)
  const low = earliest === undefined ? firstSeq - 1 : findFirst(earliest) - 1
  const high = latest === undefined ? lastSeq : findFirst(latest + 1) - 1
  const start = /^\d{1,15}$/.test(position) ? Math.max(low, Math.min(Number(position), high)) : isAscending ? low : high
  const types = readTypes(wanted)
  const matches = createMatcher(wanted)
  const items: ShownEvent[] = []
  let left = isAscending ? { after: start, upTo: high } : { after: low, upTo: start }
  let [before, examined] = [start, 0]
  for (; items.length < limit && examined < MAX_EXAMINED && left.after < left.upTo; examined += BATCH_SIZE) {
    await yieldFairly()
    const range = { ...left, types, limit: limit - items.length }
    const batch = readFeed(app, actor, range, isAscending ? 'oldest' : 'newest')
    app.workBudget.charge(actor.accountId, 1 + batch.events.length)
    for (const event of batch.events) {
      const item = toEvent(app, actor.accountId, event)
      if (item?.domain !== domain || !matches(item.shown)) continue
      if (items.push(item.shown) === 1) before = isAscending ? event.seq - 1 : event.seq
    }
    left = { after: batch.after, upTo: batch.upTo }
  }
  // Only what is on disk: after a crash no client may know of an event that was lost.
  await app.commit.barrier()
  const toUrl = (of: Query) => `${url}/${Buffer.from(JSON.stringify({ ...wanted, ...of })).toString('base64url')}`
  const [own, other] = isAscending ? ['up', 'down'] : ['down', 'up']
  return {
    items,
    paging: {
      next: toUrl({ direction: own, position: String(isAscending ? left.after : left.upTo) }),
      previous: toUrl({ direction: other, position: String(before) }),
      ...{ first: toUrl({ direction: own }), last: toUrl({ direction: other }) },
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
  const wanted = event ? splitWords(event, ' OR ') : NAMES
  if (!wanted.every((name) => NAMES.includes(name)))
    throw invalid('event', `event must be one of ${NAMES.join(', ')}, or several with " OR " between them.`)
  return TYPES.reduce((mask, type) => {
    const [name, of] = nameOf(type)
    return wanted.includes(name) && (!severity || severity === of) ? mask | (1 << toEventCode(type)) : mask
  }, 0)
}

type ShownEvent = NonNullable<ReturnType<typeof toEvent>>['shown']

function createMatcher(query: Query): (event: ShownEvent) => boolean {
  const { recipient: address = '', to = '', from = '', subject = '', 'message-id': id = '' } = query
  const tags = query['tags'] ? splitWords(query['tags'], ' AND ').map((part) => splitWords(part, ' OR ')) : []
  const includes = (text: string, part: string): boolean => text.toLowerCase().includes(part.toLowerCase())
  return ({ message: { headers }, recipient, tags: own }) =>
    tags.every((any) => any.some((tag) => own.includes(tag))) &&
    (address === '' || address.toLowerCase() === recipient.toLowerCase()) &&
    (id === '' || id.replace(/[<>]/g, '') === headers['message-id']) &&
    includes(headers.to, to) &&
    includes(headers.from, from) &&
    includes(headers.subject, subject)
}

/** An event with its domain; undefined when its email is no longer stored. */
function toEvent({ db }: App, accountId: number, { seq, id, event_type, created_at, raw_payload }: FeedEvent) {
  const at = Date.parse(created_at)
  const data = (raw_payload ?? {}) as EventData
  const type = event_type as EventType
  const email = readEmailEvent(db, accountId, { type, seq, at, data })
  if (!email) return undefined
  const { from, subject, tags, metadata } = email
  const { [REQUEST_DOMAIN]: domain = domainOfMailbox(from), ...variables } = metadata
  const [event, severity] = nameOf(type)
  const [to = ''] = email.to()
  const recipient = data.complainer ?? email.recipient ?? to
  const suppressed = type === 'rejected' ? Math.max(0, SUPPRESSED.indexOf(data.suppression ?? '')) : undefined
  const reply = data.suppression ? `Not delivering: ${data.suppression}` : (data.smtp_response ?? data.reason ?? '')
  const [, replyCode, enhanced] = /^(\d{3})(?:[ -](\d\.\d{1,3}\.\d{1,3}))?/.exec(reply) ?? []
  const headers = { 'message-id': email.messageId.replace(/[<>]/g, ''), from, to, subject }
  const shown = {
    ...{ id, event, timestamp: at / 1000, recipient, 'recipient-domain': recipient.replace(/^.*@/, '') },
    ...{ tags, campaigns: [], 'user-variables': variables },
    'log-level': severity === undefined ? 'info' : severity === 'permanent' ? 'error' : 'warn',
    ...(severity && { severity, reason: suppressed === undefined ? 'generic' : `suppress-${SUPPRESSED[suppressed]}` }),
    flags: { 'is-routed': false, 'is-authenticated': true, 'is-system-test': false, 'is-test-mode': false },
    envelope: { transport: 'smtp', sender: from.replace(/^.*<|>$/g, ''), targets: recipient },
    message: { headers, attachments: [] },
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
  return { domain, shown }
}
