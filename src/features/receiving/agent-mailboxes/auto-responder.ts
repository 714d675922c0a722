/**
 * @module Sends automatic replies to messages of agent mailboxes as RFC 3834 requires: to the envelope sender, marked
 * as automatic, in the thread of the message, at most once per sender and day, and never to another program. A reply
 * is an ordinary email of the account. The transaction that accepts a reply also records it, so no reply is sent
 * twice; a crash before that transaction loses the reply.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import type { ReceivedMail, StoredMessage } from '#features/receiving/received/message.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { days, hours } from '#platform/units.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import { type AutoReplyRefusal, decideAutoReply } from './auto-rules.ts'
import { type AutoResponderRule, findAutoResponder, findRule, parseAutoResponder, readReply } from './auto-settings.ts'
import type { Mailbox } from './mailboxes.ts'
import { acceptReply, createReplyDraft, toHeaderText } from './reply.ts'

export { decideAutoReply } from './auto-rules.ts'

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
/**
 * Limit of one mailbox, over all recipients, because remote clients trigger the replies. It also limits the rows of a
 * day.
 */
export const MAX_REPLIES_PER_HOUR = 100
/**
 * Maximum mailboxes of an account that may reply to one address within `MIN_REPLY_INTERVAL_MS`. Otherwise one message
 * to 100 mailboxes with a forged sender would make all of them write to that sender.
 */
const MAX_MAILBOXES_PER_ADDRESS = 5
/** Expired rows deleted with each reply. */
const PURGE_BATCH_SIZE = 10

/**
 * Replies to a message if its mailbox has a matching rule and RFC 3834 allows it. Called once per message, after the
 * message is on disk. Never rejects: the message has been received either way.
 * @param threadId row id of the thread that the message was added to
 */
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

type NoReplyReason = AutoReplyRefusal | 'off' | 'no_rule' | ClaimRefusal
type ClaimRefusal = 'suppressed' | 'answered_today' | 'too_many'

/** Undefined: a reply was sent. */
async function respond(
  app: App,
  mailbox: Mailbox,
  received: ReceivedMail,
  threadId: number | undefined,
): Promise<NoReplyReason | undefined> {
  const { message } = received
  const { enabled, rules } = parseAutoResponder(mailbox.autoResponder)
  if (!enabled) return 'off'
  const decision = decideAutoReply(mailbox, received)
  if (decision.kind === 'no') return decision.reason
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
  let refusal: ClaimRefusal | 'off' | undefined
  await acceptReply(
    app,
    createSystemActor(mailbox),
    { mailbox, draft, threadId },
    {
      claim(tx, isSuppressed) {
        // The auto-responder may have been disabled since the message arrived.
        if (!findAutoResponder(tx.db, mailbox.id)?.enabled) refusal = 'off'
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
function findClaimRefusal(db: Database, mailbox: Mailbox, address: string, now: Millis): ClaimRefusal | undefined {
  const statements = sql(db)
  if (statements.answered.get(mailbox.id, address, now - MIN_REPLY_INTERVAL_MS)) return 'answered_today'
  const toAddress = statements.toAddress.get(address, now - MIN_REPLY_INTERVAL_MS, mailbox.accountId)?.n ?? 0
  const sinceHour = statements.since.get(mailbox.id, now - hours(1))?.n ?? 0
  return toAddress < MAX_MAILBOXES_PER_ADDRESS && sinceHour < MAX_REPLIES_PER_HOUR ? undefined : 'too_many'
}

/**
 * Records a reply to an address, or returns why no reply may be sent. Of two concurrent messages the second finds the
 * record of the first.
 */
function claimReply(tx: Tx, mailbox: Mailbox, address: string, now: Millis): ClaimRefusal | undefined {
  sql(tx.db).trim.run(mailbox.id, now - MIN_REPLY_INTERVAL_MS, PURGE_BATCH_SIZE)
  const refusal = findClaimRefusal(tx.db, mailbox, address, now)
  if (refusal === undefined) sql(tx.db).note.run(mailbox.id, address, now)
  return refusal
}
