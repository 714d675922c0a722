/** @module Says who must act after an attempt, and what to do, in words for senders and operators. Pure. */

import type { EventType } from '#features/core/events/record.ts'
import { isRestoredReason } from '#features/core/fence/restored.ts'
import { isHoldReason } from '#features/sending/queue/queue-rules.ts'
import { isOpen, type Status } from '#features/sending/queue/status.ts'
import type { BounceCategory } from './bounce-category.ts'
import { isSuspension, NO_SERVICE_REASON, STALLED_REASON } from './wait-reasons.ts'

/**
 * Who must act. `nobody`: nothing is to be done, or retries are enough. `recipient`: the recipient, or the operator of
 * the receiving server. `sender`: the account. `operator`: of this service.
 */
export const RESPONSIBLE = ['nobody', 'recipient', 'sender', 'operator'] as const
export type Responsible = (typeof RESPONSIBLE)[number]

export interface Advice {
  readonly who: Responsible
  readonly text: string
}

export interface AttemptFinding {
  /** Type of its event. */
  readonly outcome: EventType
  readonly category: string | null
  /** Id of the rule that decided. */
  readonly rule?: string | null | undefined
  /** The reply, or what was found in its place. */
  readonly reason?: string | null | undefined
  /** Whether the reply is that of the operator's smarthost. */
  readonly isRelayed: boolean
  /** The status of its recipient now; undefined: not known to have ended. */
  readonly statusNow?: Status
}

/** By category; `whileRetried` replaces `who` as long as the mail is retried. */
const BY_CATEGORY: Readonly<Record<BounceCategory, Advice & { readonly whileRetried?: Responsible }>> = {
  invalid_recipient: {
    who: 'sender',
    text: 'The address does not exist, or its domain accepts no mail. Correct it, or stop sending to it.',
  },
  inactive_mailbox: { who: 'sender', text: 'The mailbox accepts no mail any more. Stop sending to it.' },
  mailbox_full: { who: 'recipient', text: 'The recipient must make space in the mailbox.' },
  spam_content: {
    who: 'sender',
    text: 'The receiver took the message for spam. Change its content, and send only to people who asked for it.',
  },
  policy: {
    who: 'sender',
    text: 'A rule of the receiving server forbids the message. Its reply says which, or where to ask.',
  },
  authentication: {
    who: 'sender',
    text: 'The receiver found no valid SPF, DKIM or DMARC. Check the DNS records of your domain.',
  },
  reputation: {
    who: 'operator',
    text: 'The receiver blocks or distrusts the IP address of this service. Ask for its removal where the reply says.',
  },
  rate_limited: {
    who: 'operator',
    whileRetried: 'nobody',
    text: 'The receiver limits the rate of mail.',
  },
  message_too_large: { who: 'sender', text: 'The message is too large. Send a link in place of the attachment.' },
  dns_failure: {
    who: 'sender',
    whileRetried: 'nobody',
    text: 'A domain does not exist, has no mail server, or its DNS does not answer: that of the recipient, unless the reply names another. Check the address.',
  },
  connection_failure: {
    who: 'recipient',
    whileRetried: 'nobody',
    text: 'The receiving server cannot be reached, or broke off the connection.',
  },
  tls_failure: {
    who: 'recipient',
    text: 'No TLS session with a valid certificate could be opened, so the mail was not sent.',
  },
  protocol_error: {
    who: 'operator',
    text: 'The receiving server did not accept a command. Read the dialogue.',
  },
  relay_denied: {
    who: 'recipient',
    text: 'The server in the MX records of the domain does not accept mail for it. Its owner must correct one of them.',
  },
  expired: { who: 'sender', text: 'The mail was not delivered in time. Send it again if it is still wanted.' },
  unknown: {
    who: 'sender',
    whileRetried: 'nobody',
    text: 'The receiving server gave no reason that is known here. Read its reply.',
  },
}

/** Categories that name the smarthost as the one at fault when mail goes through it. */
const OF_RELAY: ReadonlySet<string> = new Set<BounceCategory>([
  'tls_failure',
  'connection_failure',
  'relay_denied',
  'dns_failure',
])

/** What the rule says more precisely than its category. */
const GREYLISTED: Advice = { who: 'nobody', text: 'The server delays mail from unknown senders (greylisting).' }
const GREYLISTING_RULES = /greylisting|^try-later$/
const UNKNOWN_DOMAIN: Advice = {
  who: 'sender',
  text: 'The domain of the address does not exist: probably a typing error. Correct the address.',
}
const UNKNOWN_DOMAIN_RULES = /^(?:unknown-domain|X\.1\.2)$/
/** As `route.ts` words it. */
const NO_SUCH_DOMAIN = /^550 5\.1\.2 The domain \S{1,255} does not exist/

function findCause({ category, rule, reason }: AttemptFinding): Advice & { readonly whileRetried?: Responsible } {
  if (category === 'rate_limited' && GREYLISTING_RULES.test(rule ?? '')) return GREYLISTED
  if (UNKNOWN_DOMAIN_RULES.test(rule ?? '') || NO_SUCH_DOMAIN.test(reason ?? '')) return UNKNOWN_DOMAIN
  return BY_CATEGORY[category !== null && isCategory(category) ? category : 'unknown']
}

const isCategory = (text: string): text is BounceCategory => Object.hasOwn(BY_CATEGORY, text)

export interface RecipientFinding {
  readonly status: Status
  /** Category of its bounce. */
  readonly category: string | null
  /** Why it waits or was not delivered, as a sentence. */
  readonly lastError: string | null
  /** Its newest attempt, if one is stored. */
  readonly lastAttempt: AttemptFinding | undefined
  /** Why its email was not sent to its receiver. */
  readonly captured: 'domain' | 'mode' | 'simulator' | undefined
  /** Why it waits although it is due, or will when it is, as the scheduler words it. */
  readonly waitReason: string | undefined
  /** What the operator must mend before it can be sent, in whole sentences. */
  readonly blockedBy?: string | undefined
}

/** Who must act for a recipient to get the mail, and what to do. */
export function adviseOnRecipient(recipient: RecipientFinding): Advice {
  const { status, category, lastError, lastAttempt, captured, waitReason, blockedBy } = recipient
  if (blockedBy !== undefined && (status === 'queued' || status === 'scheduled'))
    return { who: 'operator', text: blockedBy }
  switch (status) {
    case 'scheduled':
      return waitReason !== undefined
        ? adviseOnWait(waitReason, lastAttempt)
        : { who: 'nobody', text: 'It is sent at its time.' }
    case 'processing':
      return { who: 'nobody', text: 'It is being sent now.' }
    case 'cancelled':
      return { who: 'nobody', text: lastError ?? 'It was cancelled before it was sent.' }
    case 'rejected':
      return { who: 'sender', text: `It was not sent: ${endSentence(lastError ?? 'the address is suppressed')}` }
    case 'queued':
      if (waitReason !== undefined) return adviseOnWait(waitReason, lastAttempt)
      if (lastAttempt) return adviseOn(lastAttempt)
      return lastError === null
        ? { who: 'nobody', text: 'It waits for its first attempt.' }
        : { who: 'operator', text: `It waits without an attempt: ${lastError}` }
    case 'sent':
      if (captured === 'simulator')
        return { who: 'nobody', text: 'The simulator accepted it. Nothing left this machine.' }
      if (captured === 'domain')
        return { who: 'sender', text: 'It was captured, not sent: the sending domain was never verified.' }
      if (captured === 'mode')
        return { who: 'operator', text: 'It was captured, not sent: the delivery mode is `capture`.' }
      return adviseOn({ outcome: 'delivered', category: null, isRelayed: false })
    default:
      // The reason names what it waited for, or the operator who ended it; the last attempt does not.
      if (category === 'expired' && lastError !== null)
        return { who: 'sender', text: `${endSentence(lastError)} Send it again if it is still wanted.` }
      return adviseOn({ isRelayed: false, ...lastAttempt, outcome: status, category, reason: lastError })
  }
}

/** For mail that waits for more than its time. A suspension is about our address, so it is the operator's, also before a first attempt. */
function adviseOnWait(waitReason: string, lastAttempt: AttemptFinding | undefined): Advice {
  if (waitReason === NO_SERVICE_REASON)
    return {
      who: 'operator',
      text: 'It waits: no service is running. Start it: `systemctl start tassis`, or `tassis serve`.',
    }
  // Most reasons are predicates, whose subject is the lane.
  if (isRestoredReason(waitReason))
    return { who: 'operator', text: endSentence(`It ${waitReason.replace(/^restored: /, '')}`) }
  const text = endSentence(/^(?:is|waits|makes) /.test(waitReason) ? `It ${waitReason}` : `It waits: ${waitReason}`)
  if (waitReason === STALLED_REASON) return { who: 'operator', text }
  if (isSuspension(waitReason))
    return { who: 'operator', text: `${text} \`tassis providers\` shows what to do about it.` }
  if (isHoldReason(waitReason)) return { who: 'operator', text }
  return { who: lastAttempt ? adviseOn(lastAttempt).who : 'nobody', text }
}

const endSentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)

/** Who must act after an attempt, and what to do. */
export function adviseOn(attempt: AttemptFinding): Advice {
  const { outcome, category, isRelayed, statusNow = 'queued' } = attempt
  switch (outcome) {
    case 'delivered':
    case 'sent':
      return { who: 'nobody', text: 'The receiving server accepted the message.' }
    case 'uncertain':
      return {
        who: 'sender',
        text: 'The receiver may have the message. Ask the recipient, and retry the dead letter only if it did not arrive: a retry may deliver it twice.',
      }
    case 'failed':
      return { who: 'operator', text: 'This service could not compose the message. The reason and the log say why.' }
    default: {
      const found = findCause(attempt)
      if (isRelayed && category !== null && OF_RELAY.has(category))
        return { who: 'operator', text: 'The smarthost of this service cannot be reached or refuses the mail.' }
      if (outcome === 'deferred' && statusNow === 'sent')
        return { who: 'nobody', text: `${found.text} A later attempt was accepted.` }
      if (outcome !== 'deferred' || !isOpen(statusNow)) return { who: found.who, text: found.text }
      return { who: found.whileRetried ?? found.who, text: `${found.text} The mail is retried.` }
    }
  }
}
