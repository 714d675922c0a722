/**
 * @module What waits since the data were restored from a backup or a copy: everything that was open then, because the
 * time that was lost may have sent it already. It waits as `restored` until the operator releases or drops it. Nothing is
 * marked row by row: what has a row id up to those of the copy is restored, unless it was released. New mail flows.
 */
import type { Database } from 'bun:sqlite'
import { getMeta, setMeta, setMetaOnce } from '#features/core/events/record.ts'
import { conflict } from '#platform/errors.ts'
import { perOwner } from '#platform/per-owner.ts'
import type { Millis } from '#platform/units.ts'

/** Mail that the operator released: all restored mail that matches each field. */
export interface ReleasedScope {
  /** Row id of the account; null: of any. */
  readonly accountId: number | null
  /** The recipients' domain as in the names of lanes; null: any. */
  readonly domain: string | null
  /** Row id of the first email; 0: any. */
  readonly fromEmailId: number
}

/** A fence, as long as something waits behind it. */
export interface Fence extends CopyMark {
  readonly fencedAt: Millis
  /** The highest row id of the copy, by table. Rows that are created later have higher ones. */
  readonly lastIds: Readonly<Record<string, number>>
  readonly released: readonly ReleasedScope[]
}

/** The tables whose rows may wait behind a fence. */
export type FencedTable = 'emails' | 'broadcasts' | 'notices' | 'contact_imports' | 'inbound_receipts'

const KEY = 'fence'
/** Each claim compares mail with them. */
const MAX_RELEASED_SCOPES = 1000

const RESTORED = 'restored: '

/** Whether a reason is one of these, for operators or for senders. */
export const isRestoredReason = (reason: string): boolean => reason.startsWith(RESTORED)

/** The id of the instance, which a fenced copy does not share with its original; `''` before the first start. */
export const readInstanceId = (db: Database): string => getMeta(db, INSTANCE_KEY) ?? ''

/** The key of the id in `meta`. */
export const INSTANCE_KEY = 'instance'

/** What senders read about restored mail, and what identifies it in the queue. */
export const RESTORED_REASON =
  'restored: accepted before the service was restored from a backup, so it may have been sent already; it waits until the operator of the service releases it'

const parsed = perOwner((_: Database): { text: string; fence: Fence | undefined } => ({ text: '', fence: undefined }))

/** The fence; undefined if nothing waits behind one. Inside a transaction it sees the changes of that transaction. */
export function readFence(db: Database): Fence | undefined {
  const text = getMeta(db, KEY) ?? ''
  const known = parsed(db)
  if (known.text !== text) {
    known.fence = text === '' ? undefined : (JSON.parse(text) as Fence)
    known.text = text
  }
  return known.fence
}

/** Starts a fence, which replaces an earlier one: what that held has lower row ids, so this one holds it too. */
export const storeFence = (db: Database, fence: Fence): void => setMeta(db, KEY, JSON.stringify(fence))

/** Ends the fence: nothing waits behind it any more. */
export const endFence = (db: Database): void => setMeta(db, KEY, '')

/** Releases a part of what waits. Throws 409 when the operator released too many parts. */
export function addReleasedScope(db: Database, scope: ReleasedScope): void {
  const fence = readFence(db)
  if (!fence) return
  const isSame = (known: ReleasedScope) => known.accountId === scope.accountId && known.domain === scope.domain
  const others = fence.released.filter((known) => !(isSame(known) && known.fromEmailId >= scope.fromEmailId))
  if (others.length >= MAX_RELEASED_SCOPES)
    throw conflict(
      'too_many_releases',
      `Restored mail was released in ${MAX_RELEASED_SCOPES} parts; release or drop the rest with one command.`,
    )
  storeFence(db, { ...fence, released: [...others, scope] })
}

/** Whether a row of a table waits behind the fence, as far as its row id decides it. */
export const isBehindFence = (fence: Fence | undefined, table: FencedTable, id: number): boolean =>
  fence !== undefined && id <= (fence.lastIds[table] ?? 0)

/** Whether an email waits as `restored`, to one domain of its recipients. */
export const isMailRestored = (
  fence: Fence | undefined,
  mail: { readonly emailId: number; readonly accountId: number; readonly domain: string },
): boolean =>
  isBehindFence(fence, 'emails', mail.emailId) &&
  !fence?.released.some(
    ({ accountId, domain, fromEmailId }) =>
      (accountId === null || accountId === mail.accountId) &&
      (domain === null || domain === mail.domain) &&
      mail.emailId >= fromEmailId,
  )

/** Whether a broadcast waits as `restored`: a release for a domain or from a time on does not release it. */
export const isBroadcastRestored = (
  fence: Fence | undefined,
  broadcast: { readonly id: number; readonly accountId: number },
): boolean =>
  isBehindFence(fence, 'broadcasts', broadcast.id) &&
  !fence?.released.some(
    ({ accountId, domain, fromEmailId }) => accountId === broadcast.accountId && domain === null && fromEmailId === 0,
  )

/** Why mail waits, for the operator. */
export const describeRestored = ({ kind, takenAt }: Fence): string =>
  `${RESTORED}waits since the data were restored from a ${kind}${takenAt === null ? '' : ` of ${new Date(takenAt).toISOString()}`}; see \`tassis fence\``

/**
 * `backup`: written by `tassis backup`. `copy`: any other copy, which an operator has marked, or which the service has
 * recognised by the files beside it.
 */
export type CopyKind = 'backup' | 'copy'

export interface CopyMark {
  readonly kind: CopyKind
  /** When the copy was made; null if unknown. */
  readonly takenAt: Millis | null
}

/** The next start finds the mark and fences the copy before anything is sent, dispatched or accepted. */
const MARK_KEY = 'copy'

/**
 * Marks a database as a copy. Writes one row of `meta`, in the caller's transaction if there is one, and leaves no
 * prepared statement, so that closing the connection moves the WAL into the file; works with the schema of any version.
 * Call it on the copied database only, never on the one of a running service.
 */
export const markAsCopy = (db: Database, { kind, takenAt }: CopyMark): void =>
  setMetaOnce(db, MARK_KEY, JSON.stringify({ kind, takenAt }))

/** The mark of a copy that was not fenced yet; undefined if there is none. */
export function readCopyMark(db: Database): CopyMark | undefined {
  const stored = getMeta(db, MARK_KEY)
  return stored ? (JSON.parse(stored) as CopyMark) : undefined
}

/** Removes the mark, in the transaction that fences the copy. */
export const removeCopyMark = (db: Database): void => setMeta(db, MARK_KEY, '')
