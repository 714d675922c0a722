/**
 * @module Dead letters: adds and reads them, removes resolved ones, and retries or deletes one for its account or for an
 * operator. Never retries one automatically.
 */

import type { Database } from 'bun:sqlite'
import { getSendingAccount, requireSendingAllowed } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { requeueFinished } from '#features/sending/queue/attempt-transitions.ts'
import { laneOf, simulatorDomain } from '#features/sending/queue/lanes.ts'
import { isContentDeleted } from '#features/sending/queue/retire.ts'
import { type Status, statusName } from '#features/sending/queue/status.ts'
import type { emails } from '#features/sending/queue/tables.ts'
import { toPriorityName } from '#features/setup/streams/streams.ts'
import { newestFirst, prepareStatements, type RowWindow, type Tx } from '#platform/db/open.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'
import type { deadLetters } from './tables.ts'

export const DEAD_LETTER_REASONS = ['expired', 'failed', 'uncertain'] as const
export type DeadLetterReason = (typeof DEAD_LETTER_REASONS)[number]

export interface DeadLetter
  extends Readonly<
    Omit<typeof deadLetters.$inferSelect, 'reason'> &
      Pick<typeof emails.$inferSelect, 'from' | 'subject' | 'sandbox' | 'scheduledAt'>
  > {
  readonly reason: DeadLetterReason
  readonly emailUuid: UuidBytes
  /** Message-ID that the client set; null: derived. */
  readonly messageId: string | null
  readonly isBulk: boolean
  readonly acceptedAt: Millis
  readonly to: string
  readonly status: Status
  readonly attempts: number
  readonly stream: string | null
  /** Code of the priority of its stream. */
  readonly priority: number
  /** Row id of its stream if that has a pool of outgoing addresses. */
  readonly pooledStreamId: number | null
}

interface Row extends Omit<DeadLetter, 'sandbox' | 'isBulk' | 'status'> {
  readonly sandbox: number
  readonly isBulk: number
  readonly status: number
}

const SELECT_LETTER = `SELECT dead_letters.id, dead_letters.account_id AS accountId, reason, dead_letters.last_error AS lastError, failed_at AS failedAt, recipient_id AS recipientId,
  dead_letters.email_id AS emailId, emails.uuid AS emailUuid, from_address AS "from", subject, sandbox,
  extra ->> '$.message_id' AS messageId, broadcast_id IS NOT NULL AS isBulk, scheduled_at AS scheduledAt, emails.created_at AS acceptedAt, address AS "to", recipients.status, attempts,
  streams.slug AS stream, coalesce(streams.priority, 0) AS priority,
  iif(streams.pool IS NULL, NULL, streams.id) AS pooledStreamId
  FROM dead_letters JOIN emails ON emails.id = dead_letters.email_id JOIN recipients ON recipients.id = recipient_id
  LEFT JOIN streams ON streams.id = stream_id`
/** ?1: an account, ?2: a reason, ?3: public id of an email; each null for all. */
const IS_SELECTED = `(?1 IS NULL OR dead_letters.account_id = ?1) AND (?2 IS NULL OR reason = ?2)
  AND (?3 IS NULL OR recipient_id IN (SELECT r.id FROM recipients r JOIN emails e ON e.id = r.email_id WHERE e.uuid = ?3))`

const sql = prepareStatements((db) => ({
  insert: db.prepare(
    `INSERT INTO dead_letters (account_id, email_id, recipient_id, reason, last_error, failed_at)
     SELECT account_id, id, ?, ?, ?, ? FROM emails WHERE id = ?`,
  ),
  delete: db.prepare('DELETE FROM dead_letters WHERE recipient_id = ?'),
  list: newestFirst<Row, [number]>(db, SELECT_LETTER, 'dead_letters WHERE account_id = ?', 'dead_letters.id'),
  byId: db.prepare<Row, [number | null, number]>(
    `${SELECT_LETTER} WHERE dead_letters.account_id = coalesce(?, dead_letters.account_id) AND dead_letters.id = ?`,
  ),
  selected: newestFirst<Row, [accountId: number | null, reason: string | null, email: Uint8Array | null]>(
    db,
    SELECT_LETTER,
    `dead_letters WHERE ${IS_SELECTED}`,
    'dead_letters.id',
  ),
  ofEmail: db.prepare<Row, [number]>(
    `${SELECT_LETTER} WHERE recipient_id IN (SELECT id FROM recipients WHERE email_id = ?) ORDER BY dead_letters.id DESC`,
  ),
}))

export function addDeadLetter(
  tx: Tx,
  letter: { emailId: number; recipientId: number; reason: DeadLetterReason; lastError: string | undefined; at: Millis },
): void {
  sql(tx.db).insert.run(letter.recipientId, letter.reason, letter.lastError ?? null, letter.at, letter.emailId)
}

/** Deletes the dead letter of a recipient, if there is one. Call it in the transaction that settles the recipient. */
export function resolveDeadLetter(tx: Tx, recipientId: number): void {
  sql(tx.db).delete.run(recipientId)
}

const toDeadLetter = (row: Row): DeadLetter => ({
  ...row,
  sandbox: row.sandbox === 1,
  isBulk: row.isBulk === 1,
  status: statusName(row.status),
})

type Page = { letters: DeadLetter[]; total: number }
const toPage = ({ rows, total }: { rows: Row[]; total: number }): Page => ({ letters: rows.map(toDeadLetter), total })

/** The newest dead letters of an account, and their total, counted in the index. */
export const listDeadLetters = (db: Database, accountId: number, limit: number): Page =>
  toPage(sql(db).list({ limit, offset: 0 }, accountId))

export interface DeadLetterFilter {
  /** Undefined: all accounts. */
  readonly accountId: number | undefined
  readonly reason: DeadLetterReason | undefined
  /** Public id. */
  readonly email: UuidBytes | undefined
}

/** A page of the selected dead letters, newest first, and their total. */
export const selectDeadLetters = (
  db: Database,
  { accountId, reason, email }: DeadLetterFilter,
  page: RowWindow,
): Page => toPage(sql(db).selected(page, accountId ?? null, reason ?? null, email ?? null))

export const listDeadLettersOfEmail = (db: Database, emailId: number): DeadLetter[] =>
  sql(db).ofEmail.all(emailId).map(toDeadLetter)

/** The dead letter with the id from the API, of the account, if one is given; throws a 404 if there is none. */
export function getDeadLetter(db: Database, accountId: number | undefined, id: string): DeadLetter {
  const row = LETTER_ID.test(id) ? sql(db).byId.get(accountId ?? null, Number(id)) : null
  if (!row) throw notFound('dead_letter_not_found', 'Dead letter not found.')
  return toDeadLetter(row)
}

const LETTER_ID = /^[1-9]\d{0,14}$/

/**
 * Puts the recipient of a dead letter back into the queue, due now and with the full time until expiry, and deletes the
 * letter. Throws a 404 for an unknown id, a 403 while the account is paused, and a 409 if the content is no longer
 * stored. If an `uncertain` message did reach its receiver, the retry delivers it a second time.
 */
export function retryDeadLetter(app: App, actor: Actor, id: string): Promise<void> {
  return app.commit.write((tx) => {
    requireSendingAllowed(getSendingAccount(app.config, tx.db, actor.accountId))
    const letter = getDeadLetter(tx.db, actor.accountId, id)
    if (isContentDeleted(tx.db, letter.emailId))
      throw conflict(
        'content_not_kept',
        'The content of this email is no longer stored, so it cannot be sent again; send a new email.',
      )
    const domain = letter.to.slice(letter.to.lastIndexOf('@') + 1)
    const lane = laneOf({
      accountId: actor.accountId,
      domain,
      sandbox: letter.sandbox,
      laneClass: letter.isBulk ? 'bulk' : toPriorityName(letter.priority),
      simulatorDomain: simulatorDomain(app.config),
      streamId: letter.pooledStreamId ?? undefined,
    })
    const nextAt = app.clock.now()
    const isRequeued = requeueFinished(tx, {
      recipientId: letter.recipientId,
      emailId: letter.emailId,
      lane,
      nextAt,
      now: app.eventTime(),
      from: letter.reason === 'expired' ? 'bounced' : letter.reason,
    })
    if (!isRequeued) {
      throw conflict(
        'dead_letter_superseded',
        `The recipient is now ${letter.status}, so there is nothing to retry; delete the dead letter.`,
      )
    }
    removeDeadLetter(app, tx, actor, letter, 'dead_letter.retried')
    tx.afterCommit(() => app.mailDue.emit({ lane, at: nextAt }))
  })
}

/** Deletes a dead letter; its email is unchanged. Throws a 404 for an unknown id. */
export const deleteDeadLetter = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) =>
    removeDeadLetter(app, tx, actor, getDeadLetter(tx.db, actor.accountId, id), 'dead_letter.deleted'),
  )

function removeDeadLetter(app: App, tx: Tx, actor: Actor, letter: DeadLetter, action: string): void {
  resolveDeadLetter(tx, letter.recipientId)
  const metadata = { email_id: formatUuid(letter.emailUuid), recipient: letter.to, reason: letter.reason }
  auditChange(app, tx, actor, action, String(letter.id), metadata)
}
