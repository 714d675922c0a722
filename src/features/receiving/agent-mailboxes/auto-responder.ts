/**
 * @module Sends automatic replies to messages of agent mailboxes as RFC 3834 requires: to the envelope sender, marked
 * as automatic, in the thread of the message, at most once per sender and day, and never to another program. The
 * message and its authentication alone decide whether and where to reply; then earlier replies and suppressions do. A
 * reply is an ordinary email of the account. The transaction that accepts a reply also records it, so no reply is sent
 * twice; a crash before that transaction loses the reply.
 */

import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import type { ReceivedMail, StoredMessage } from '#features/receiving/received/message.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, hours, type Millis } from '#platform/units.ts'
import { normaliseAddress, parseMailbox, parseMailboxList } from '#protocols/address/parse.ts'
import { type AutoResponderRule, findRule, parseAutoResponder, readReply } from './auto-settings.ts'
import { type Mailbox, RETURN_PATH } from './mailboxes.ts'
import { acceptReply, createReplyDraft, isAddressOfMailbox, toHeaderText } from './reply.ts'

/** The address to reply to, or why there is no reply. */
export type AutoReplyDecision = { readonly to: string } | { readonly refusal: string }

/** Local parts reserved for programs by RFC 3834 §2 and convention. */
const PROGRAM_LOCAL_PART =
  /^(?:mailer-daemon|mailerdaemon|mailer|postmaster|daemon|root|nobody|majordomo|listserv|listproc|list|lists|bounces?|auto-?(?:reply|responder|mailer)|notifications?)$|^owner-|-(?:owner|request|relay)$|^bounces?[-+=]|[-+.]bounces?$|(?:^|[-_.+])(?:no|not|dont|donot|do-not|do_not|don-t)[-_.]?reply(?:[-_.+]|$)/

const LIST_HEADER = /^list-/i

/** DMARC policies with which the domain disowns messages that fail (RFC 9989). */
const ENFORCED_POLICIES: readonly (string | null)[] = ['quarantine', 'reject']

/** Maximum addresses of To that are checked; a mailbox named after that many others is not addressed personally. */
const MAX_ADDRESSES = 100

/** Whether a program may answer, and at which address: the envelope sender, never Reply-To or From (RFC 3834 §4). */
export function decideAutoReply(
  mailbox: MailboxAddress,
  { envelope, message, authentication }: ReceivedMail,
): AutoReplyDecision {
  // RFC 3834 §2: with the null reverse-path there is no address to reply to.
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
  // Probably forged. The reply is sent to the envelope sender, which SPF authenticates; DMARC authenticates the From
  // that the reader sees. A softfail means a probably forged sender (RFC 7208 §8.5) unless a signature of the author's
  // domain is valid.
  const { spf, dmarc, details } = authentication
  const isDoubtful = spf === 'fail' || (spf === 'softfail' && dmarc !== 'pass')
  if (isDoubtful || (dmarc === 'fail' && ENFORCED_POLICIES.includes(details.dmarc.policy?.toLowerCase() ?? null)))
    return refuse('forged')
  return { to: sender.address }
}

const refuse = (refusal: string): AutoReplyDecision => ({ refusal })

type MailboxAddress = Pick<Mailbox, 'localPart' | 'domain'>

/** Whether mail to an address reaches the mailbox. */
function isAddressOf(mailbox: MailboxAddress, address: string): boolean {
  const parsed = parseMailbox(address)
  return parsed.kind === 'ok' && isAddressOfMailbox(mailbox, parsed)
}

/** RFC 3834 §2: replies only where To or Cc names the mailbox. */
function isAddressed(mailbox: MailboxAddress, message: StoredMessage): boolean {
  const cc = parseMailboxList(message.cc ?? '')
  const copied = cc.kind === 'ok' ? cc.mailboxes.map(({ address }) => address) : []
  return [...message.toAddresses.slice(0, MAX_ADDRESSES), ...copied].some((address) => isAddressOf(mailbox, address))
}

const sql = prepareStatements((db) => ({
  answered: db.prepare<{ at: number }, [number, string, number]>(
    'SELECT replied_at AS at FROM mailbox_auto_replies WHERE mailbox_id = ? AND address = ? AND replied_at > ?',
  ),
  note: db.prepare(
    `INSERT INTO mailbox_auto_replies (mailbox_id, address, replied_at) VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET replied_at = excluded.replied_at`,
  ),
  since: db.prepare<{ n: number }, [number, number]>(
    'SELECT COUNT(*) AS n FROM mailbox_auto_replies WHERE mailbox_id = ? AND replied_at > ?',
  ),
  toAddress: db.prepare<{ n: number }, [string, number, number]>(
    `SELECT COUNT(*) AS n FROM mailbox_auto_replies r JOIN agent_mailboxes m ON m.id = r.mailbox_id
     WHERE r.address = ? AND r.replied_at > ? AND m.account_id = ?`,
  ),
  trim: db.prepare(
    `DELETE FROM mailbox_auto_replies WHERE mailbox_id = ?1 AND address IN
     (SELECT address FROM mailbox_auto_replies WHERE mailbox_id = ?1 AND replied_at <= ?2 LIMIT ?3)`,
  ),
}))

/** RFC 3834 §2 suggests one reply in several days; senders who ask questions expect replies more often. */
const MIN_REPLY_INTERVAL_MS = days(1)
/** Of one mailbox, because remote clients trigger the replies; it also limits the rows of a day. */
export const MAX_REPLIES_PER_HOUR = 100
/**
 * Maximum mailboxes of an account that may reply to one address within `MIN_REPLY_INTERVAL_MS`. Otherwise one message
 * to 100 mailboxes with a forged sender would make all of them write to that sender.
 */
const MAX_MAILBOXES_PER_ADDRESS = 5
/** Expired rows deleted with each reply. */
const PURGE_BATCH_SIZE = 10

/** Replies to a stored message if its mailbox has a matching rule and RFC 3834 allows it. Never rejects. */
export async function autoRespond(
  app: App,
  mailbox: Mailbox,
  received: ReceivedMail,
  threadId?: number,
): Promise<void> {
  try {
    const refusal = await respond(app, mailbox, received, threadId)
    if (refusal) app.log.debug({ mailbox: formatUuid(mailbox.uuid), refusal }, 'no automatic reply')
  } catch (error) {
    const logFields = { mailbox: formatUuid(mailbox.uuid), err: error }
    // For example: account paused, quota exhausted, domain deleted, disk full.
    if (error instanceof AppError) app.log.info(logFields, 'automatic reply not accepted')
    else app.log.error(logFields, 'automatic reply failed')
  }
}

/** Returns why there was no reply; undefined: one was sent. */
async function respond(
  app: App,
  mailbox: Mailbox,
  received: ReceivedMail,
  threadId: number | undefined,
): Promise<string | undefined> {
  const { message } = received
  const { enabled, rules } = parseAutoResponder(mailbox.autoResponder)
  if (!enabled) return 'off'
  const decision = decideAutoReply(mailbox, received)
  if ('refusal' in decision) return decision.refusal
  const rule = findRule(rules, message)
  if (!rule) return 'no_rule'
  // Checked again in the transaction; this early check avoids storing a draft that cannot be sent.
  const address = normaliseAddress(decision.to)
  const earlyRefusal = findClaimRefusal(app.db, mailbox, address, app.eventTime())
  if (earlyRefusal) return earlyRefusal
  const draft = createReplyDraft(
    app,
    mailbox,
    message,
    { ...toReplyRequest(rule, message), to: decision.to, transactional: true, tracking: false },
    // The header of RFC 3834 §5, and the one that Exchange reads.
    { headers: { 'Auto-Submitted': 'auto-replied', 'X-Auto-Response-Suppress': 'All' } },
  )
  let refusal: string | undefined
  await acceptReply(
    app,
    createSystemActor(mailbox),
    { mailbox, draft, threadId },
    {
      claim(tx, current, isSuppressed) {
        // The auto-responder may have been disabled since the message arrived.
        if (!parseAutoResponder(current.autoResponder).enabled) refusal = 'off'
        else refusal = isSuppressed ? 'suppressed' : claimReply(tx, mailbox, address, app.eventTime())
        return refusal === undefined
      },
    },
  )
  return refusal
}

function toReplyRequest(rule: AutoResponderRule, { subject }: StoredMessage) {
  const reply = readReply(rule)
  return {
    subject: formatAutoSubject(reply.subject ?? subject),
    ...(reply.text !== undefined && { text_body: reply.text }),
    ...(reply.html !== undefined && { html_body: reply.html }),
  }
}

/** RFC 3834 §3.1.5: a single `Auto: ` prefix. */
function formatAutoSubject(subject: string): string {
  const bare = toHeaderText(subject).replace(/^(?:auto\s*:\s*)+/i, '')
  return `Auto: ${bare === '' ? 'your message' : bare}`
}

/** Why an address may not get a reply now; undefined: it may. */
function findClaimRefusal(db: Database, mailbox: Mailbox, address: string, now: Millis): string | undefined {
  const statements = sql(db)
  if (statements.answered.get(mailbox.id, address, now - MIN_REPLY_INTERVAL_MS)) return 'answered_today'
  const toAddress = statements.toAddress.get(address, now - MIN_REPLY_INTERVAL_MS, mailbox.accountId)?.n ?? 0
  const sinceHour = statements.since.get(mailbox.id, now - hours(1))?.n ?? 0
  return toAddress < MAX_MAILBOXES_PER_ADDRESS && sinceHour < MAX_REPLIES_PER_HOUR ? undefined : 'too_many'
}

/** Records a reply to an address, or returns why none may be sent: of two messages at once, only one is answered. */
function claimReply(tx: Tx, mailbox: Mailbox, address: string, now: Millis): string | undefined {
  sql(tx.db).trim.run(mailbox.id, now - MIN_REPLY_INTERVAL_MS, PURGE_BATCH_SIZE)
  const refusal = findClaimRefusal(tx.db, mailbox, address, now)
  if (refusal === undefined) sql(tx.db).note.run(mailbox.id, address, now)
  return refusal
}
