/**
 * @module Leases messages to consumers for some minutes, in a transaction, so that two consumers never hold the same
 * message. An ack ends a lease permanently; after a nack or its expiry the next consumer gets the message.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { equalBytes } from '#platform/crypto/crypto.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { conflict } from '#platform/errors.ts'
import { randomBytes } from '#platform/ids.ts'
import { type Millis, minutes } from '#platform/units.ts'
import { getMailboxMessage } from './messages.ts'

export const LEASE_MS = minutes(5)
/** Maximum remaining time of a valid lease, allowing for a small clock correction. */
const MAX_REMAINING_MS = 2 * LEASE_MS
const TOKEN_BYTES = 16
/** Expired leases released in one transaction; the next one releases more. */
const MAX_RELEASED = 500

export interface Lease {
  readonly messageId: number
  readonly token: Uint8Array
  readonly expiresAt: Millis
}

const WHERE_WAITING = 'mailbox_id = ? AND email_id IS NULL AND acked_at IS NULL'
const sql = prepareStatements((db) => ({
  free: db.prepare<{ id: number }, [number]>(
    `SELECT id FROM mailbox_messages INDEXED BY mailbox_messages_next WHERE ${WHERE_WAITING} AND lease_expires_at IS NULL ORDER BY id LIMIT 1`,
  ),
  nearest: db.prepare<{ at: number | null }, [number, number]>(
    `SELECT min(lease_expires_at) AS at FROM mailbox_messages INDEXED BY mailbox_messages_next WHERE ${WHERE_WAITING} AND lease_expires_at > 0 AND lease_expires_at <= ?`,
  ),
  hasEndless: db.prepare<{ id: number }, [number, number]>(
    `SELECT id FROM mailbox_messages INDEXED BY mailbox_messages_next WHERE ${WHERE_WAITING} AND lease_expires_at > ? LIMIT 1`,
  ),
  takeBack: db.prepare(
    `UPDATE mailbox_messages SET lease_token = NULL, lease_expires_at = NULL WHERE id IN
     (SELECT id FROM mailbox_messages INDEXED BY mailbox_messages_next WHERE ${WHERE_WAITING} AND lease_expires_at > ? AND lease_expires_at <= ?
      ORDER BY lease_expires_at LIMIT ?)`,
  ),
  lease: db.prepare('UPDATE mailbox_messages SET lease_token = ?, lease_expires_at = ? WHERE id = ?'),
  release: db.prepare(
    'UPDATE mailbox_messages SET lease_token = NULL, lease_expires_at = NULL WHERE id = ? AND lease_token = ? AND acked_at IS NULL',
  ),
  ack: db.prepare(
    'UPDATE mailbox_messages SET acked_at = ?1, read_at = coalesce(read_at, ?1), lease_expires_at = NULL WHERE id = ?2',
  ),
  countRead: db.prepare(
    'UPDATE agent_mailboxes SET unread_count = unread_count - 1, unread_bytes = unread_bytes - ? WHERE id = ?',
  ),
}))

export const hasAvailableMessage = (db: Database, mailboxId: number, now: Millis): boolean =>
  sql(db).free.get(mailboxId) !== null || (findNearestExpiry(db, mailboxId, now) ?? Number.POSITIVE_INFINITY) <= now

/**
 * When the first lease in the mailbox ends; undefined: no lease. A lease that lasts longer than the maximum was granted
 * while the clock was ahead, and counts as expired.
 */
export function findNearestExpiry(db: Database, mailboxId: number, now: Millis): Millis | undefined {
  if (sql(db).hasEndless.get(mailboxId, now + MAX_REMAINING_MS)) return now
  return sql(db).nearest.get(mailboxId, now + MAX_REMAINING_MS)?.at ?? undefined
}

/** Releases expired leases; before `leaseOldestMessage`, so that these messages are leased again in their order. */
export function releaseExpired(tx: Tx, mailboxId: number, now: Millis): void {
  const { takeBack } = sql(tx.db)
  takeBack.run(mailboxId, 0, now, MAX_RELEASED)
  takeBack.run(mailboxId, now + MAX_REMAINING_MS, Number.MAX_SAFE_INTEGER, MAX_RELEASED)
}

/** Leases the oldest available message; undefined: none. */
export function leaseOldestMessage(tx: Tx, mailboxId: number, now: Millis): Lease | undefined {
  const message = sql(tx.db).free.get(mailboxId)
  if (!message) return undefined
  const lease = { messageId: message.id, token: randomBytes(TOKEN_BYTES), expiresAt: now + LEASE_MS }
  sql(tx.db).lease.run(lease.token, lease.expiresAt, lease.messageId)
  return lease
}

/** Releases a lease that its consumer never received. */
export const releaseLease = (tx: Tx, lease: Lease): void => void sql(tx.db).release.run(lease.messageId, lease.token)

export const formatToken = (token: Uint8Array): string => token.toHex()

/**
 * Ends a lease permanently: the message is read and no consumer gets it again. The same ack may be repeated. Throws
 * 404, and 409 unless the token belongs to a current lease.
 */
export function ackMessage(app: App, actor: Actor, id: string, mid: string, token: string): Promise<void> {
  return app.commit.writeFromReserve((tx) => {
    const { mailbox, message } = getMailboxMessage(tx.db, actor.accountId, id, mid)
    if (message.ackedAt !== null && isLeaseToken(message.leaseToken, token)) return
    requireLease(app, message, token)
    sql(tx.db).ack.run(app.eventTime(), message.id)
    if (message.readAt === null) sql(tx.db).countRead.run(message.sizeBytes, mailbox.id)
    auditChange(app, tx, actor, 'mailbox_message.acked', message.uuid)
  })
}

/** Ends a lease so that the next consumer can get the message immediately. Throws as `ackMessage` does. */
export function nackMessage(app: App, actor: Actor, id: string, mid: string, token: string): Promise<void> {
  return app.commit.writeFromReserve((tx) => {
    const { mailbox, message } = getMailboxMessage(tx.db, actor.accountId, id, mid)
    const expiresAt = requireLease(app, message, token)
    releaseLease(tx, { messageId: message.id, token: message.leaseToken ?? new Uint8Array(), expiresAt })
    auditChange(app, tx, actor, 'mailbox_message.nacked', message.uuid)
    tx.afterCommit(() => app.mailboxChanged.emit({ mailboxId: mailbox.id }))
  })
}

/** Returns the time at which the lease ends; throws 409 unless the token belongs to a current lease. */
function requireLease(
  app: App,
  message: { readonly leaseToken: Uint8Array | null; readonly leaseExpiresAt: Millis | null },
  token: string,
): Millis {
  const { leaseToken, leaseExpiresAt } = message
  if (leaseExpiresAt === null || leaseExpiresAt <= app.clock.now() || !isLeaseToken(leaseToken, token))
    throw conflict(
      'lease_lost',
      'Lease expired or unknown, so another consumer may have the message; ask for the next message again.',
    )
  return leaseExpiresAt
}

const TOKEN = /^[0-9a-f]{32}$/i

const isLeaseToken = (stored: Uint8Array | null, text: string): boolean =>
  stored !== null && TOKEN.test(text) && equalBytes(stored, Uint8Array.fromHex(text))
