/** @module One sentence about an email: what happened to it, and what happens next. Pure. */
import type { EmailDetail, EmailRecipient } from '#features/sending/emails/model.ts'
import { toProvider as toProviderOfAddress } from './providers.ts'

export type DescribedEmail = Pick<EmailDetail, 'sandbox' | 'scheduled_at' | 'updated_at' | 'recipients' | 'events'>
type Event = EmailDetail['events'][number]

export interface SentenceOptions {
  readonly now?: Date
  readonly locale?: string
  readonly timeZone?: string
}

/** The state of a recipient as the reader sees it: `queued` is divided by what it waits for. */
type Situation =
  | 'scheduled'
  | 'queued'
  | 'held'
  | 'deferred'
  | 'processing'
  | 'sent'
  | 'captured'
  | 'bounced'
  | 'failed'
  | 'rejected'
  | 'cancelled'
  | 'uncertain'
  | 'unknown'

interface Described {
  readonly recipient: EmailRecipient
  readonly situation: Situation
  /** The newest event that explains the situation. */
  readonly event: Event | undefined
}

/** Why a server refuses a message, after "because" or a colon. */
const CATEGORY_REASONS: Readonly<Record<string, string>> = {
  invalid_recipient: 'the address does not exist',
  mailbox_full: 'the mailbox is full',
  inactive_mailbox: 'the mailbox is disabled',
  spam_content: 'the content looks like spam',
  policy: 'a rule of the receiver forbids it',
  authentication: 'SPF, DKIM or DMARC did not pass',
  reputation: 'the sender has a bad reputation there',
  rate_limited: 'too much mail came at once',
  message_too_large: 'the message is too large',
  dns_failure: 'its DNS gave no usable answer',
  connection_failure: 'no connection could be made',
  tls_failure: 'no secure connection could be made',
  protocol_error: 'the servers did not understand each other',
  relay_denied: 'the server takes no mail for this domain',
  expired: 'it was not accepted in time',
}

const GREYLISTING = /gr[ae]y-?list/i

const UNREACHABLE: ReadonlySet<string> = new Set(['dns_failure', 'connection_failure', 'tls_failure'])

const SUPPRESSION_REASONS: Readonly<Record<string, string>> = {
  hard_bounce: 'earlier mail bounced',
  complaint: 'reported as spam',
  unsubscribe: 'unsubscribed',
  manual: 'added by hand',
}

/** Why an address is on the suppression list; undefined: unknown. */
export const toSuppressionWords = (reason: string | undefined): string | undefined =>
  reason === undefined ? undefined : (SUPPRESSION_REASONS[reason] ?? reason)

/** Longer replies of servers are cut: the timeline has the whole. */
const MAX_QUOTE_LENGTH = 160

/** A category in words; undefined when it says nothing. */
export const toCategoryReason = (category: string | null | undefined): string | undefined =>
  category ? CATEGORY_REASONS[category] : undefined

/** All data of an event. */
export const toEventData = ({ raw_payload: data }: Pick<Event, 'raw_payload'>): Readonly<Record<string, unknown>> =>
  typeof data === 'object' && data !== null ? (data as Record<string, unknown>) : {}

const toText = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)

/**
 * Whether an accepted email was only captured: in the sandbox, or by a service that delivers nothing. Mail to the
 * simulator is sandbox mail, too, but is shown as what it simulates.
 */
export const isCaptured = ({ sandbox }: { readonly sandbox: boolean }, reply: string | null | undefined): boolean =>
  (sandbox && !/\b2\.0\.0 Simulated\b/.test(reply ?? '')) || /\b2\.6\.0 Captured\b/.test(reply ?? '')

export function sentence(email: DescribedEmail, options: SentenceOptions = {}): string {
  const described = email.recipients.map((recipient) => describe(email, recipient))
  const [only] = described
  if (only === undefined) return 'It has no recipient.'
  const format = createTimeFormat(options)
  if (described.length === 1) return finish(toClause(email, only, 'it', format))
  return finish(describeAll(email, described, format))
}

/** Begins with a capital letter, unless it begins with a domain. */
function finish(clause: string): string {
  const isDomain = /^\S+\.\S/.test(clause)
  return `${isDomain ? clause[0] : clause[0]?.toUpperCase()}${clause.slice(1)}${clause.endsWith('.') ? '' : '.'}`
}

function describe(email: DescribedEmail, recipient: EmailRecipient): Described {
  const events = email.events.filter((event) => event.recipient === null || event.recipient === recipient.address)
  const findLast = (...types: readonly string[]): Event | undefined =>
    events.findLast(({ event_type: type }) => types.includes(type))
  const as = (situation: Situation, event?: Event): Described => ({ recipient, situation, event })
  switch (recipient.status) {
    case 'queued': {
      const last = findLast('deferred', 'queued')
      if (last?.event_type !== 'deferred') return as(recipient.attempts > 0 ? 'deferred' : 'queued')
      return as(recipient.attempts > 0 || last.bounce_category ? 'deferred' : 'held', last)
    }
    case 'sent':
      return isCaptured(email, recipient.smtp_response)
        ? as('captured')
        : as('sent', findLast('complained', 'clicked', 'opened'))
    case 'bounced':
    case 'failed':
    case 'rejected':
    case 'uncertain':
    case 'cancelled':
    case 'scheduled':
    case 'processing':
      return as(recipient.status, findLast(recipient.status))
    default:
      return as('unknown')
  }
}

/** Who answered: the provider of the recipient, or the relay that takes all mail of this service. */
function toProvider({ recipient, event }: Described, email?: DescribedEmail): string {
  const attempt = event?.remote_mta ? event : email?.events.findLast(({ remote_mta: host }) => host)
  if (!attempt || toEventData(attempt)['relay'] !== true) return toProviderOfAddress(recipient.address)
  return `your relay ${attempt.remote_mta?.split(' ')[0]}`
}

type FormatTime = (iso: string) => string

/** `at 14:03` for today, else `on 24 Nov at 14:03`. */
function createTimeFormat({ now = new Date(), locale, timeZone }: SentenceOptions): FormatTime {
  const zone = timeZone === undefined ? {} : { timeZone }
  const clock = new Intl.DateTimeFormat(locale, { ...zone, hour: '2-digit', minute: '2-digit' })
  const day = new Intl.DateTimeFormat(locale, { ...zone, day: 'numeric', month: 'short', year: 'numeric' })
  const today = day.format(now)
  return (iso) => {
    const at = new Date(iso)
    const on = day.format(at)
    return on === today ? `at ${clock.format(at)}` : `on ${on} at ${clock.format(at)}`
  }
}

/** @param it how the clause names the email */
function toClause(email: DescribedEmail, described: Described, it: string, format: FormatTime): string {
  const { recipient, event, situation } = described
  const provider = toProvider(described, email)
  switch (situation) {
    case 'scheduled':
      return email.scheduled_at ? `${it} will be sent ${format(email.scheduled_at)}` : `${it} is scheduled`
    case 'queued':
      return `${it} waits to be sent; the first attempt starts soon`
    case 'held':
      return `${it} is held: ${toHoldReason(event)}${toNext(described, format)}`
    case 'deferred':
      return `${toRefusal(described, it, 'for now')}${toNext(described, format)}`
    case 'processing':
      return `${it} is being sent to ${provider} now`
    case 'captured':
      return email.sandbox
        ? `${it} was captured and not sent, because its domain is not verified`
        : `${it} was captured and not sent, because this service captures all mail`
    case 'sent':
      return `${provider} accepted ${it}${recipient.delivered_at ? ` ${format(recipient.delivered_at)}` : ''}${toReaction(event)}`
    case 'bounced':
      return `${toRefusal(described, it, '')}; it is not tried again${wasSuppressed(event) ? ', and the address was put on your suppression list' : ''}`
    case 'failed':
      return `${it} could not be sent: ${quoteReason(event) ?? 'the service had an error'}; it waits among the dead letters`
    case 'rejected':
      return `${it} was not sent: ${toSuppression(recipient, event)}`
    case 'cancelled':
      return `${it} was cancelled ${format(event?.created_at ?? email.updated_at)} and never sent`
    case 'uncertain':
      return `it is unknown whether ${provider} has ${it}: the connection ended before its reply; it is not tried again, so that it does not arrive twice`
    default:
      return `the status of ${it} is ${recipient.status}`
  }
}

/** Who refused the email and why; `when` is `for now` or empty. */
function toRefusal(described: Described, it: string, when: string): string {
  const { recipient, event } = described
  const provider = toProvider(described)
  const category = event?.bounce_category ?? recipient.bounce_category ?? undefined
  if (category === 'expired') return `${provider} did not accept ${it} in time`
  const isGreylisted = GREYLISTING.test(readReply(event, recipient) ?? '')
  const reason = isGreylisted
    ? 'it makes senders that it does not know try again later (greylisting)'
    : (toCategoryReason(category) ?? quoteReply(event, recipient))
  const because = reason === undefined ? '' : `: ${reason}`
  if (category !== undefined && UNREACHABLE.has(category))
    return `${provider} could not be reached${it === 'it' ? '' : ` for ${it}`}${because}`
  return `${provider} ${when === '' ? 'rejected' : 'refused'} ${it}${when === '' ? '' : ` ${when}`}${because}`
}

/** Whether a bounce put the address on the suppression list. */
const wasSuppressed = (event: Event | undefined): boolean =>
  event !== undefined && toEventData(event)['suppressed'] === true

const quote = (text: string): string =>
  `“${text.length > MAX_QUOTE_LENGTH ? `${text.slice(0, MAX_QUOTE_LENGTH)}…` : text}”`

const readReply = (event: Event | undefined, recipient: EmailRecipient): string | undefined =>
  (event && toText(toEventData(event)['smtp_response'])) ?? toText(recipient.smtp_response)

function quoteReply(event: Event | undefined, recipient: EmailRecipient): string | undefined {
  const reply = readReply(event, recipient)
  return reply === undefined ? quoteReason(event) : quote(reply)
}

function quoteReason(event: Event | undefined): string | undefined {
  const reason = event && toText(toEventData(event)['reason'])
  return reason && quote(reason)
}

const toHoldReason = (event: Event | undefined): string => quoteReason(event) ?? 'its account may not send now'

function toNext({ recipient, event }: Described, format: FormatTime): string {
  const next = recipient.next_retry_at ?? (event && toText(toEventData(event)['next_retry_at']))
  return next ? `; next attempt ${format(next)}` : ''
}

function toReaction(event: Event | undefined): string {
  if (event?.event_type === 'complained') return ', and the recipient reported it as spam'
  if (event?.event_type === 'clicked') return ', and a link in it was clicked'
  return event?.event_type === 'opened' ? ', and it was opened' : ''
}

function toSuppression({ address }: EmailRecipient, event: Event | undefined): string {
  const data = event ? toEventData(event) : {}
  if (data['reason'] === 'erased') return 'the data of the recipient was erased'
  if (data['reason'] !== 'suppressed' && event) return quoteReason(event) ?? `${address} gets no mail`
  const reason = toText(data['suppression'])
  const words = toSuppressionWords(reason)
  return `${address} is on your suppression list${words === undefined ? '' : ` (${words})`}`
}

/** Situations in the order of the sentence, with words for several recipients. */
const COUNTED: readonly (readonly [Situation, (recipients: string) => string])[] = [
  ['sent', (recipients) => `delivered to ${recipients}`],
  ['captured', (recipients) => `captured and not sent for ${recipients}`],
  ['processing', (recipients) => `being sent to ${recipients}`],
  ['queued', (recipients) => `waiting to be sent to ${recipients}`],
  ['scheduled', (recipients) => `scheduled for ${recipients}`],
  ['held', (recipients) => `held for ${recipients}`],
  ['deferred', (recipients) => `refused for now for ${recipients}`],
  ['bounced', (recipients) => `rejected for ${recipients}, not tried again`],
  ['uncertain', (recipients) => `uncertain for ${recipients}, not tried again`],
  ['failed', (recipients) => `not possible to send to ${recipients}`],
  ['rejected', (recipients) => `not sent to ${recipients} on your suppression list`],
  ['cancelled', (recipients) => `cancelled for ${recipients}`],
  ['unknown', (recipients) => `in another state for ${recipients}`],
]

/** Situations in which a single recipient among several is named with its reason. */
const NAMED: ReadonlySet<Situation> = new Set(['held', 'deferred', 'bounced', 'uncertain', 'failed', 'rejected'])

function describeAll(email: DescribedEmail, all: readonly Described[], format: FormatTime): string {
  const bySituation = Map.groupBy(all, ({ situation }) => situation)
  const clauses = COUNTED.flatMap(([situation, toWords]) => {
    const group = bySituation.get(situation) ?? []
    const [first] = group
    if (first === undefined) return []
    if (group.length === 1 && NAMED.has(situation))
      return [toClause(email, first, `the email to ${first.recipient.address}`, format)]
    const count =
      group.length === all.length ? `all ${all.length} recipients` : `${group.length} of ${all.length} recipients`
    return [`${toWords(count)}${toGroupTime(email, situation, group, format)}`]
  })
  return clauses.join('; ')
}

function toGroupTime(
  email: DescribedEmail,
  situation: Situation,
  group: readonly Described[],
  format: FormatTime,
): string {
  if (situation === 'scheduled') return email.scheduled_at ? ` ${format(email.scheduled_at)}` : ''
  const next = group.flatMap(({ recipient }) => recipient.next_retry_at ?? []).sort()
  return next[0] === undefined ? '' : `; next attempt ${format(next[0])}`
}
