/**
 * @module Whether a message may be answered by a program, and to whom (RFC 3834): pure, and by what the message and its authentication say alone.
 * Whether the sender had an answer today, or is suppressed, is asked elsewhere.
 */

import type { ReceivedMail, StoredMessage } from '#features/receiving/received/message.ts'
import { parseMailbox, parseMailboxList } from '#protocols/address/parse.ts'
import { isAddressOfMailbox } from './reply.ts'

/** Why a message gets no automatic answer. */
export type AutoReplyRefusal =
  /** RFC 3834 §2: nobody to tell. */
  | 'null_sender'
  | 'no_address'
  | 'own_address'
  /** A return path as this service makes them: what comes in there is read by no person. */
  | 'return_path'
  /** The sender is a list manager, a daemon, or does not want to be written to. */
  | 'sender_is_a_program'
  /** The message says that a program made it, or that no program should answer. */
  | 'automatic'
  | 'mailing_list'
  /** The mailbox is in neither To nor Cc: it came by Bcc, a list or a forward. */
  | 'not_addressed'
  /** Who sent it is probably not who it says. */
  | 'forged'

export type AutoReplyDecision =
  | { readonly kind: 'yes'; readonly to: string }
  | { readonly kind: 'no'; readonly reason: AutoReplyRefusal }

/** Local parts that RFC 3834 §2 and custom reserve for programs. */
const PROGRAM_LOCAL_PART =
  /^(?:mailer-daemon|mailerdaemon|mailer|postmaster|daemon|root|nobody|majordomo|listserv|listproc|list|lists|bounces?|auto-?(?:reply|responder|mailer)|notifications?)$|^owner-|-(?:owner|request|relay)$|^bounces?[-+=]|[-+.]bounces?$|(?:^|[-_.+])(?:no|not|dont|donot|do-not|do_not|don-t)[-_.]?reply(?:[-_.+]|$)/

/** As protocols/address/verp.ts makes them; of whichever service. */
const RETURN_PATH = /^[bu]-[a-z2-7]{32}$/

const LIST_HEADER = /^list-/i

/** Policies under which a message that fails DMARC is not wanted by the domain that it names (RFC 9989). */
const ENFORCED_POLICIES: readonly (string | null)[] = ['quarantine', 'reject']

/** Headers of more addresses than this name nobody in particular. */
const MAX_ADDRESSES = 100

/**
 * Whether a program may answer a message, and at which address: that of the envelope, never Reply-To or From (RFC 3834 §4).
 * @param mailbox who would answer, lower case, domain in A-labels
 */
export function decideAutoReply(
  mailbox: { readonly localPart: string; readonly domain: string },
  { envelope, message, authentication }: ReceivedMail & { readonly message: StoredMessage },
): AutoReplyDecision {
  if (envelope.mailFrom === '') return refuse('null_sender')
  const sender = parseMailbox(envelope.mailFrom)
  if (sender.kind === 'invalid') return refuse('no_address')
  const localPart = sender.localPart.toLowerCase()
  if (isAddressOf(mailbox, sender.address)) return refuse('own_address')
  if (RETURN_PATH.test(localPart)) return refuse('return_path')
  if (PROGRAM_LOCAL_PART.test(localPart)) return refuse('sender_is_a_program')
  if (message.isAutomatic) return refuse('automatic')
  if (message.headers.some(([name]) => LIST_HEADER.test(name))) return refuse('mailing_list')
  // A From of our own with another envelope: the answer would be about our own mail.
  if (message.fromAddresses.some((address) => isAddressOf(mailbox, address))) return refuse('own_address')
  if (!isAddressed(mailbox, message)) return refuse('not_addressed')
  // The answer goes to the envelope sender, which SPF speaks of; DMARC speaks of who the reader believes it is from.
  // A softfail says that the sender is probably not who it says (RFC 7208 §8.5), which only a signature of the author's domain outweighs.
  const { spf, dmarc, details } = authentication
  const isDoubtful = spf === 'fail' || (spf === 'softfail' && dmarc !== 'pass')
  if (isDoubtful || (dmarc === 'fail' && ENFORCED_POLICIES.includes(details.dmarc.policy?.toLowerCase() ?? null)))
    return refuse('forged')
  return { kind: 'yes', to: sender.address }
}

const refuse = (reason: AutoReplyRefusal): AutoReplyDecision => ({ kind: 'no', reason })

/** Whether mail to an address goes to the mailbox. */
function isAddressOf(mailbox: { readonly localPart: string; readonly domain: string }, address: string): boolean {
  const parsed = parseMailbox(address)
  return parsed.kind === 'ok' && isAddressOfMailbox(mailbox, parsed)
}

/** RFC 3834 §2: an answer only where the mailbox is named in To or Cc. */
function isAddressed(
  mailbox: { readonly localPart: string; readonly domain: string },
  message: StoredMessage,
): boolean {
  const cc = parseMailboxList(message.cc ?? '')
  const copied = cc.kind === 'ok' ? cc.mailboxes.map(({ address }) => address) : []
  return [...message.toAddresses.slice(0, MAX_ADDRESSES), ...copied].some((address) => isAddressOf(mailbox, address))
}
