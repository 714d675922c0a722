/**
 * @module Decides whether a message may be answered automatically, and to which address (RFC 3834), from the message
 * and its authentication alone. Pure. `auto-responder.ts` checks earlier replies and suppressions.
 */

import type { ReceivedMail, StoredMessage } from '#features/receiving/received/message.ts'
import { parseMailbox, parseMailboxList } from '#protocols/address/parse.ts'
import { isAddressOfMailbox } from './reply.ts'

/** Why a message gets no automatic reply. */
export type AutoReplyRefusal =
  /** RFC 3834 §2: the envelope sender is the null reverse-path, so there is no address to reply to. */
  | 'null_sender'
  | 'no_address'
  | 'own_address'
  /** The envelope sender is a return path of this or another instance of the service, which no person reads. */
  | 'return_path'
  /** The sender is a list manager, a daemon or a no-reply address. */
  | 'sender_is_a_program'
  /** The message declares that a program created it, or that programs must not answer. */
  | 'automatic'
  | 'mailing_list'
  /** Neither To nor Cc names the mailbox: the message came by Bcc, through a list, or was forwarded. */
  | 'not_addressed'
  /** The sender is probably forged. */
  | 'forged'

export type AutoReplyDecision =
  | { readonly kind: 'yes'; readonly to: string }
  | { readonly kind: 'no'; readonly reason: AutoReplyRefusal }

/** Local parts reserved for programs by RFC 3834 §2 and convention. */
const PROGRAM_LOCAL_PART =
  /^(?:mailer-daemon|mailerdaemon|mailer|postmaster|daemon|root|nobody|majordomo|listserv|listproc|list|lists|bounces?|auto-?(?:reply|responder|mailer)|notifications?)$|^owner-|-(?:owner|request|relay)$|^bounces?[-+=]|[-+.]bounces?$|(?:^|[-_.+])(?:no|not|dont|donot|do-not|do_not|don-t)[-_.]?reply(?:[-_.+]|$)/

/** The local parts that `protocols/address/verp.ts` creates, in any instance of the service. */
const RETURN_PATH = /^[bu]-[a-z2-7]{32}$/

const LIST_HEADER = /^list-/i

/** DMARC policies with which the domain disowns messages that fail (RFC 9989). */
const ENFORCED_POLICIES: readonly (string | null)[] = ['quarantine', 'reject']

/** Maximum addresses of To that are checked; a mailbox named after that many others is not addressed personally. */
const MAX_ADDRESSES = 100

/**
 * Decides whether a program may answer a message, and at which address: the envelope sender, never Reply-To or From
 * (RFC 3834 §4).
 * @param mailbox the mailbox that would reply; lower case, domain in A-labels
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
  // From names the mailbox, although the envelope sender is another address: a reply would answer our own mail.
  if (message.fromAddresses.some((address) => isAddressOf(mailbox, address))) return refuse('own_address')
  if (!isAddressed(mailbox, message)) return refuse('not_addressed')
  // The reply is sent to the envelope sender, which SPF authenticates; DMARC authenticates the From that the reader
  // sees. A softfail means a probably forged sender (RFC 7208 §8.5) unless a signature of the author's domain is valid.
  const { spf, dmarc, details } = authentication
  const isDoubtful = spf === 'fail' || (spf === 'softfail' && dmarc !== 'pass')
  if (isDoubtful || (dmarc === 'fail' && ENFORCED_POLICIES.includes(details.dmarc.policy?.toLowerCase() ?? null)))
    return refuse('forged')
  return { kind: 'yes', to: sender.address }
}

const refuse = (reason: AutoReplyRefusal): AutoReplyDecision => ({ kind: 'no', reason })

/** Whether mail to an address reaches the mailbox. */
function isAddressOf(mailbox: { readonly localPart: string; readonly domain: string }, address: string): boolean {
  const parsed = parseMailbox(address)
  return parsed.kind === 'ok' && isAddressOfMailbox(mailbox, parsed)
}

/** RFC 3834 §2: replies only where To or Cc names the mailbox. */
function isAddressed(
  mailbox: { readonly localPart: string; readonly domain: string },
  message: StoredMessage,
): boolean {
  const cc = parseMailboxList(message.cc ?? '')
  const copied = cc.kind === 'ok' ? cc.mailboxes.map(({ address }) => address) : []
  return [...message.toAddresses.slice(0, MAX_ADDRESSES), ...copied].some((address) => isAddressOf(mailbox, address))
}
