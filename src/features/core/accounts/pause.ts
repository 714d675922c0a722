/**
 * @module Returns whether an account may send, and the reason why it may not: the account or its parent is paused,
 * disabled or deleted. The only writer of the pause columns. Never decides on a pause or notifies anyone:
 * `reporting/abuse/pause.ts`, the only caller of the two writers, does.
 */
import type { Database } from 'bun:sqlite'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'

/**
 * What may pause an account: its bounce and complaint rates; the scan of its mail for scams; too many domains, API keys
 * or sub-accounts created within an hour; the operator.
 */
export const PAUSE_SOURCES = ['reputation', 'scam_classifier', 'registration_burst', 'admin'] as const
export type PauseSource = (typeof PAUSE_SOURCES)[number]

export interface Pause {
  readonly since: Millis
  readonly source: PauseSource
  /** One sentence; never names a threshold. */
  readonly reason: string
}

interface Row {
  readonly pausedAt: number | null
  readonly source: string | null
  readonly reason: string | null
  readonly isOff: number
  readonly parentPausedAt: number | null
  readonly parentSource: string | null
  readonly parentReason: string | null
  readonly isParentOff: number
}

/** Sources of pauses that also block tracked links, because the mail already sent may be harmful. */
const LINK_BLOCKING_SOURCES = (['scam_classifier', 'admin'] satisfies PauseSource[])
  .map((source) => `'${source}'`)
  .join(', ')

const sql = prepareStatements((db) => ({
  free: db.prepare<{ id: number }, [number]>(
    'SELECT id FROM accounts WHERE id = ? AND paused_at IS NULL AND disabled_at IS NULL AND deleted_at IS NULL AND parent_id IS NULL',
  ),
  standing: db.prepare<Row, [number]>(
    `SELECT own.paused_at AS pausedAt, own.pause_source AS source, own.pause_reason AS reason,
       own.disabled_at IS NOT NULL OR own.deleted_at IS NOT NULL AS isOff, parent.paused_at AS parentPausedAt,
       parent.pause_source AS parentSource, parent.pause_reason AS parentReason,
       coalesce(parent.disabled_at, parent.deleted_at) IS NOT NULL AS isParentOff
     FROM accounts own LEFT JOIN accounts parent ON parent.id = own.parent_id WHERE own.id = ?`,
  ),
  blockedLinks: db.prepare<{ uuid: UuidBytes }, []>(
    `SELECT own.uuid FROM accounts own LEFT JOIN accounts parent ON parent.id = own.parent_id
     WHERE own.pause_source IN (${LINK_BLOCKING_SOURCES}) OR parent.pause_source IN (${LINK_BLOCKING_SOURCES})`,
  ),
  pause: db.prepare(
    'UPDATE accounts SET paused_at = ?, pause_source = ?, pause_reason = ?, updated_at = ? WHERE id = ? AND paused_at IS NULL',
  ),
  resume: db.prepare(
    'UPDATE accounts SET paused_at = NULL, pause_source = NULL, pause_reason = NULL, resumed_at = ?, updated_at = ? WHERE id = ? AND paused_at IS NOT NULL',
  ),
}))

/**
 * The account's own pause, or else the pause of its parent, which also applies to sub-accounts; undefined when neither
 * is paused.
 */
export function findPause(db: Database, accountId: number): Pause | undefined {
  const row = sql(db).standing.get(accountId)
  return row ? toPause(row) : undefined
}

function toPause(row: Row): Pause | undefined {
  if (row.pausedAt !== null) return createPause(row.pausedAt, row.source, row.reason)
  return row.parentPausedAt === null ? undefined : createPause(row.parentPausedAt, row.parentSource, row.parentReason)
}

const createPause = (since: Millis, source: string | null, reason: string | null): Pause => ({
  since,
  source: PAUSE_SOURCES.find((known) => known === source) ?? 'admin',
  reason: reason ?? 'The operator of the service paused it.',
})

/** Why an account may not send, as a sentence for its users; undefined when it may. */
export function findSendingBlock(db: Database, accountId: number): string | undefined {
  // A separate statement, because this runs for each email and nearly always finds no block.
  if (sql(db).free.get(accountId)) return undefined
  const row = sql(db).standing.get(accountId)
  if (!row) return 'The account is deleted.'
  if (row.isOff === 1 || row.isParentOff === 1) return 'The account is disabled.'
  const paused = toPause(row)
  // Operators often leave out the full stop.
  return paused && `The account is paused: ${paused.reason.replace(/(?<![.!?])$/, '.')}`
}

/** UUIDs of the accounts whose tracked links are blocked, deleted accounts included. */
export const listAccountsWithBlockedLinks = (db: Database): UuidBytes[] =>
  sql(db)
    .blockedLinks.all()
    .map(({ uuid }) => uuid)

/** Pauses the account; false when it is already paused. */
export const setPaused = (tx: Tx, accountId: number, { since, source, reason }: Pause): boolean =>
  sql(tx.db).pause.run(since, source, reason, since, accountId).changes === 1

/** Ends the pause; false when the account is not paused. */
export const setResumed = (tx: Tx, accountId: number, now: Millis): boolean =>
  sql(tx.db).resume.run(now, now, accountId).changes === 1
