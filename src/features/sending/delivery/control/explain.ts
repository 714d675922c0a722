/**
 * @module Explains an email: what happened to each recipient and why, who must act, and what to do. The API, the
 * dashboard and `tassis explain` show these texts. A reason of a reply is a row of `CAUSES`; a new state of a recipient,
 * a case of `describe`. Pure.
 */
import type { RecordedEvent } from '#features/core/events/model.ts'
import type { EventData, EventType } from '#features/core/events/record.ts'
import type { Explanation, RecipientExplanation, Responsible, State } from '#features/sending/emails/model.ts'
import type { StoredEmail, StoredRecipient } from '#features/sending/emails/read.ts'
import { findHold, toRecipientState } from '#features/sending/emails/wire.ts'
import { isOpen, type Status } from '#features/sending/queue/status.ts'
import { COMPLAINT, HARD_BOUNCE, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import { ERASED_ADDRESS } from '#features/setup/suppression-store/suppression-list-key.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import type { Millis } from '#platform/units.ts'
import type { BounceCategory } from '../protocol.ts'

interface Cause {
  readonly who: Responsible
  /** As it stands after a colon. */
  readonly text: string
  readonly advice: string | undefined
}

const cause = (who: Responsible, text: string, advice?: string): Cause => ({ who, text, advice })

const CAUSES: Readonly<Record<BounceCategory, Cause>> = {
  invalid_recipient: cause(
    'sender',
    'the address does not exist, or its domain accepts no mail',
    'Ask the recipient for the right address.',
  ),
  inactive_mailbox: cause('sender', 'the mailbox accepts no mail any more', 'Ask the recipient for another address.'),
  mailbox_full: cause('recipient', 'the mailbox is full', 'The recipient must make space in the mailbox.'),
  spam_content: cause(
    'sender',
    'the receiver took the message for spam',
    'Change its content, and send only to people who asked for it.',
  ),
  policy: cause('sender', 'a rule of the receiving server forbids it', 'The reply says which, or where to ask.'),
  authentication: cause(
    'sender',
    'the receiver found no valid SPF, DKIM or DMARC',
    'Check the DNS records of your domain.',
  ),
  reputation: cause(
    'operator',
    'the receiver blocks or distrusts the IP address of this service',
    'Ask for its removal where the reply says.',
  ),
  rate_limited: cause('operator', 'the receiver limits the rate of mail'),
  message_too_large: cause('sender', 'the message is too large', 'Send a link in place of the attachment.'),
  dns_failure: cause(
    'sender',
    'a domain does not exist, has no mail server, or its DNS does not answer: that of the recipient, unless the reply names another',
    'Check the address.',
  ),
  connection_failure: cause(
    'recipient',
    'the connection to the receiving server failed',
    'The operator of that server must repair it.',
  ),
  tls_failure: cause('recipient', 'no TLS session with a valid certificate could be opened, so the mail was not sent'),
  protocol_error: cause('operator', 'the receiving server did not accept a command', 'Read the dialogue.'),
  relay_denied: cause(
    'recipient',
    'the server in the MX records of the domain does not accept mail for it',
    'The owner of the domain must correct one of them.',
  ),
  expired: cause('sender', 'it was not delivered in time', 'Send it again if it is still wanted.'),
  unknown: cause('sender', 'the receiving server gave no reason that is known here', 'Read its reply.'),
}

/** Causes for which nobody must act as long as the mail is retried. */
const PASSING_CAUSES: ReadonlySet<Cause> = new Set([
  CAUSES.rate_limited,
  CAUSES.dns_failure,
  CAUSES.connection_failure,
  CAUSES.unknown,
])

/** What a rule, or who refused, says more precisely than the category. */
const GREYLISTED = cause('nobody', 'the server delays unknown senders (greylisting)')
const GREYLISTING_RULES = /greylisting|^try-later$/
const UNKNOWN_DOMAIN = cause(
  'sender',
  'the domain of the address does not exist',
  'Correct the address with the recipient: it is probably a typing error.',
)
const UNKNOWN_DOMAIN_RULES = /^(?:unknown-domain|X\.1\.2)$/
const NO_MAILBOX = cause('sender', 'there is no such mailbox', CAUSES.invalid_recipient.advice)
const NO_MAILBOX_REPLY = /^\d{3}[ -]5\.1\.1 /
/** As `route.ts` words it. */
const NO_SUCH_DOMAIN = /^550 5\.1\.2 The domain \S{1,255} does not exist/
const SMARTHOST = cause('operator', 'the smarthost of this service cannot be reached or refuses the mail')
const PROXY = cause(
  'operator',
  'a SOCKS5 proxy of this service does not work',
  'The operator must repair it: `tassis doctor` says what is wrong.',
)
const OF_ROUTE: ReadonlySet<string> = new Set<BounceCategory>([
  'tls_failure',
  'connection_failure',
  'relay_denied',
  'dns_failure',
])

/** Whether an attempt did not reach the right server, so that the smarthost or a redirect is at fault if there is one. */
export const isFaultOfRoute = ({ bounce_category: category }: EventData): boolean => OF_ROUTE.has(category ?? '')

function findCause(data: EventData): Cause {
  const { bounce_category: category, rule, reason, smtp_response: reply } = data
  const name = category ?? 'unknown'
  if (rule === 'proxy-failed') return PROXY
  if (data.relay && isFaultOfRoute(data)) return SMARTHOST
  if (name === 'rate_limited' && GREYLISTING_RULES.test(rule ?? '')) return GREYLISTED
  if (UNKNOWN_DOMAIN_RULES.test(rule ?? '') || NO_SUCH_DOMAIN.test(reason ?? reply ?? '')) return UNKNOWN_DOMAIN
  if (name === 'invalid_recipient' && NO_MAILBOX_REPLY.test(reply ?? reason ?? '')) return NO_MAILBOX
  return Object.hasOwn(CAUSES, name) ? CAUSES[name as BounceCategory] : CAUSES.unknown
}

const whoWhileRetried = (found: Cause): Responsible => (PASSING_CAUSES.has(found) ? 'nobody' : found.who)

interface Said {
  readonly who: Responsible
  readonly sentence: string
  readonly advice?: string | undefined
}

const UNCERTAIN: Said = {
  who: 'sender',
  sentence: 'The connection broke before the final reply, so the receiver may have the message.',
  advice: 'Ask the recipient. Retry it only if it did not arrive: a retry may deliver it twice.',
}

/** Who must act after an attempt, and what to do. @param statusNow the status of its recipient now */
export function adviseOnAttempt(
  { type, data }: { readonly type: EventType; readonly data: EventData },
  statusNow: Status = 'queued',
): { readonly who: Responsible; readonly text: string } {
  switch (type) {
    case 'delivered':
      return { who: 'nobody', text: 'The receiving server accepted the message.' }
    case 'uncertain':
      return { who: UNCERTAIN.who, text: `${UNCERTAIN.sentence} ${UNCERTAIN.advice}` }
    case 'failed':
      return { who: 'operator', text: 'This service could not compose the message. The reason and the log say why.' }
    default: {
      const found = findCause(data)
      const text = `${toSentence(found.text)}${found.advice === undefined ? '' : ` ${found.advice}`}`
      if (type === 'deferred' && statusNow === 'sent')
        return { who: 'nobody', text: `${text} A later attempt was accepted.` }
      return type === 'deferred' && isOpen(statusNow)
        ? { who: whoWhileRetried(found), text: `${text} The mail is retried.` }
        : { who: found.who, text }
    }
  }
}

const toSentence = (text: string): string =>
  `${text[0]?.toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`

/** Longer replies are cut; the attempts have the whole. */
const MAX_QUOTE_LENGTH = 160
const quote = (text: string): string =>
  `“${text.length > MAX_QUOTE_LENGTH ? `${text.slice(0, MAX_QUOTE_LENGTH)}…` : text}”`

/** A cause that says nothing is replaced by the reply, or by what was found in its place. */
function describeCause(found: Cause, { smtp_response: reply, reason }: EventData): string {
  const said = reply ?? reason
  return found === CAUSES.unknown && said ? quote(said) : found.text
}

interface Facts {
  readonly recipient: StoredRecipient
  readonly isSandbox: boolean
  /** Those of the recipient, oldest first. */
  readonly events: readonly RecordedEvent[]
  /** What stops mail of the same kind to the address now. */
  readonly suppression: RecipientExplanation['suppression']
}

/** The data of the newest event of a type, after an attempt or a wait with a cause; empty if none is stored. */
const findRefusal = ({ recipient: { lastError }, events }: Facts, type: 'deferred' | 'bounced'): EventData => ({
  reason: lastError,
  ...events
    .filter((event) => event.type === type)
    .map(parseData)
    .findLast((data) => data.bounce_category != null),
})

const parseData = ({ data }: RecordedEvent): EventData => JSON.parse(data ?? '{}') as EventData

function describe(state: State, facts: Facts): Said {
  const { recipient, isSandbox } = facts
  const { lastError, bounceCategory } = recipient
  switch (state) {
    case 'draft':
      return { who: 'sender', sentence: 'This draft is sent once a person releases it.' }
    case 'scheduled':
      return { who: 'nobody', sentence: 'It will be sent at its time.' }
    case 'processing':
      return { who: 'nobody', sentence: 'It is being sent now.' }
    case 'held':
      return { who: 'operator', sentence: toSentence(`It is held: ${findHold(recipient)}`) }
    case 'queued': {
      if (lastError === null) return { who: 'nobody', sentence: 'It waits for its first attempt.' }
      const found = findCause(findRefusal(facts, 'deferred'))
      return { who: whoWhileRetried(found), sentence: toSentence(`It waits: ${lastError}`) }
    }
    case 'deferred': {
      const data = findRefusal(facts, 'deferred')
      const found = findCause(data)
      const who = whoWhileRetried(found)
      const sentence = `Not accepted yet: ${describeCause(found, data)}.`
      return { who, sentence, advice: who === 'nobody' ? 'Wait: it is tried again.' : found.advice }
    }
    case 'sent':
    case 'complained':
      return describeAccepted(facts)
    case 'captured':
      return isSandbox
        ? {
            who: 'sender',
            sentence: 'It was captured, not sent: the sending domain was never verified.',
            advice: 'Verify the domain, then send it again.',
          }
        : { who: 'operator', sentence: 'It was captured, not sent: the delivery mode of this service is `capture`.' }
    case 'bounced': {
      // The stored error names the operator who ended it; the last attempt does not.
      if (bounceCategory === 'expired' && lastError !== null) {
        const data = findRefusal(facts, 'deferred')
        const isKnown = EXPIRED.test(lastError) && data.bounce_category != null
        const found = isKnown ? findCause(data) : CAUSES.expired
        const sentence = isKnown ? `Expired: ${describeCause(found, data)}.` : toSentence(lastError)
        // Before that it would expire again.
        const send = found.who === 'recipient' && found.advice ? `${found.advice} Then send` : 'Send'
        return { who: 'sender', sentence, advice: `${send} it again if it is still wanted.` }
      }
      const data = { bounce_category: bounceCategory, ...findRefusal(facts, 'bounced') }
      const found = findCause(data)
      return { who: found.who, sentence: `Not accepted: ${describeCause(found, data)}.`, advice: found.advice }
    }
    case 'failed': {
      const why = lastError === null ? '' : `: ${quote(lastError)}`
      const advice = 'The log says why. Then retry it.'
      return { who: 'operator', sentence: `This service could not compose the message${why}.`, advice }
    }
    case 'rejected':
      return {
        who: 'sender',
        sentence: toSentence(
          `Not sent: ${lastError?.replace(SUPPRESSED, (_, reason) => nameSuppression(reason, facts.suppression)) ?? 'the address is suppressed, or its data were erased'}`,
        ),
        advice: facts.suppression
          ? (SUPPRESSION_ADVICE.get(facts.suppression.reason) ?? 'To send to it again, remove its suppression.')
          : SUPPRESSED.test(lastError ?? '')
            ? CAUSES.expired.advice
            : undefined,
      }
    case 'cancelled':
      return { who: 'nobody', sentence: toSentence(lastError ?? 'It was cancelled before it was sent') }
    case 'uncertain':
      return UNCERTAIN
  }
}

/** As `outcome.ts` and `waiting-transitions.ts` word it. */
const EXPIRED = /^Not delivered (?:in time|before its deadline);/
/** As `queue/insert.ts` words it. */
const SUPPRESSED = /^The address is on the suppression list \((.+)\), so nothing is sent to it\.$/
const SUPPRESSION_CAUSES: ReadonlyMap<string, string> = new Map([
  [HARD_BOUNCE, 'earlier mail bounced'],
  [COMPLAINT, 'the recipient reported earlier mail as spam'],
  [UNSUBSCRIBE, 'the recipient unsubscribed'],
  ['manual', 'your account added it'],
])

const nameSuppression = (reason: string, now: Facts['suppression']): string =>
  `the address ${now ? 'is' : 'was'} suppressed: ${SUPPRESSION_CAUSES.get(reason) ?? reason}`

const SUPPRESSION_ADVICE: ReadonlyMap<string, string> = new Map([
  [HARD_BOUNCE, 'If the address works again, remove its suppression, then send it again.'],
  [COMPLAINT, 'Ask whether the recipient wants further mail. If so, remove the suppression, then send it again.'],
  [UNSUBSCRIBE, 'The recipient still gets mail that is marked as transactional.'],
])

const REACTIONS: ReadonlyMap<string, string> = new Map([
  ['opened', ', and it was opened'],
  ['clicked', ', and a link in it was clicked'],
  ['complained', ', and the recipient reported it as spam'],
])

function describeAccepted({ isSandbox, events, suppression }: Facts): Said {
  const isRelayed = events.some((event) => event.type === 'delivered' && parseData(event).relay)
  const server = isRelayed ? 'The smarthost of this service' : 'The receiving server'
  const accepted = isSandbox ? 'The simulator accepted it, and nothing left this machine' : `${server} accepted it`
  const reactions = events.map(({ type }) => type).filter((type) => REACTIONS.has(type))
  const reaction = reactions.includes('complained') ? 'complained' : (reactions.at(-1) ?? '')
  const sentence = `${accepted}${REACTIONS.get(reaction) ?? ''}.`
  if (reaction === 'complained') {
    const advice = `Ask whether the recipient wants further mail${suppression ? '. If so, remove the suppression' : ' before you send it'}.`
    return { who: 'sender', sentence, advice }
  }
  return isSandbox || reaction !== '' ? { who: 'nobody', sentence } : { who: 'nobody', sentence, advice: NOT_SEEN }
}

const NOT_SEEN =
  'If the recipient does not see it: look into the spam folder and the filters of the mailbox. The operator of the receiving server finds it by our Message-ID, the time, and its reply.'

/** Why an open recipient waits now, as only the operator knows it. */
export interface Wait {
  readonly sentence: string
  readonly advice?: string
  /** Absent: whoever the last attempt names. */
  readonly who?: Responsible
  /** Whether no attempt is made until somebody acts. */
  readonly isHeld?: true
}

export interface ExplanationContext {
  /** For operators. */
  readonly findWait?: (recipient: StoredRecipient) => Wait | undefined
  readonly findSuppression?: (recipient: StoredRecipient) => RecipientExplanation['suppression']
  /** When an open recipient expires. */
  readonly findExpiry?: (recipient: StoredRecipient) => Millis
}

export function explainEmail(
  email: StoredEmail,
  events: readonly RecordedEvent[],
  context: ExplanationContext = {},
): Explanation {
  const explanations = email.recipients.map((recipient) => {
    const ofRecipient = events.filter(({ recipient: address }) => address === null || address === recipient.address)
    const suppression = context.findSuppression?.(recipient) ?? null
    return explainRecipient({ recipient, isSandbox: email.sandbox, events: ofRecipient, suppression }, context)
  })
  return { sentence: summarise(explanations), explanations }
}

/** Events that say how an attempt ended, and at which server. */
const OUTCOMES: ReadonlySet<string> = new Set<EventType>(['delivered', 'deferred', 'bounced', 'failed', 'uncertain'])

/** A complaint is known as long as events are stored. */
const toStateWithComplaint = ({ recipient, events }: Facts): State => {
  const state = toRecipientState(recipient)
  return state === 'sent' && events.some(({ type }) => type === 'complained') ? 'complained' : state
}

function explainRecipient(facts: Facts, { findWait, findExpiry }: ExplanationContext): RecipientExplanation {
  const { recipient, events, suppression } = facts
  const { address, retryAt, status } = recipient
  const wait = findWait?.(recipient)
  const storedState = toStateWithComplaint(facts)
  const outcome = events.findLast(({ type }) => OUTCOMES.has(type))
  const state = wait?.isHeld ? 'held' : storedState
  const stored = describe(storedState, facts)
  const { sentence, advice, who = stored.who } = wait ?? stored
  const isWaiting = state === 'queued' || state === 'scheduled' || state === 'deferred'
  return {
    address,
    state,
    sentence,
    who_must_act: who,
    advice: advice ?? null,
    next_at: isWaiting ? isoTimeOrNull(retryAt) : null,
    tried_until: findExpiry && isOpen(status) ? isoTime(findExpiry(recipient)) : null,
    at: isoTimeOrNull(outcome?.at ?? null),
    server: (outcome && parseData(outcome).remote_mta) ?? null,
    reply: recipient.smtpResponse,
    suppression,
    further_mail: address === ERASED_ADDRESS ? null : describeFurtherMail(state, suppression),
  }
}

/** After a bounce, a complaint or a suppression. */
function describeFurtherMail(state: State, suppression: Facts['suppression']): string | null {
  if (!suppression)
    return state === 'bounced' || state === 'complained' || state === 'rejected'
      ? 'Further mail like this is sent to the address: it is not suppressed.'
      : null
  const { stops, stream, list } = suppression
  const part = list !== null ? ` to the list ${list}` : stream !== null ? ` of the stream ${stream}` : ''
  const mail = stops === 'all' ? 'No further mail' : `No further mail that is not transactional${part}`
  return `${mail} is sent until the suppression is removed.`
}

/** `Of 3 recipients: 2 sent, 1 bounced (bob@example.com).` */
function summarise(explanations: readonly RecipientExplanation[]): string {
  const [first] = explanations
  if (first === undefined) return 'It has no recipient.'
  if (explanations.length === 1) return first.sentence
  const counts = [...Map.groupBy(explanations, ({ state }) => state)].map(
    ([state, [one, ...others]]) => `${others.length + 1} ${state}${others.length === 0 ? ` (${one?.address})` : ''}`,
  )
  return `Of ${explanations.length} recipients: ${counts.join(', ')}.`
}
