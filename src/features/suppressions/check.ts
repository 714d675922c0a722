/**
 * @module Whether an account may still send to an address: asked once for each recipient at acceptance, and again right before delivery. Never
 * writes.
 */
import type { Database } from 'bun:sqlite'
import { prepared } from '#platform/db/open.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'

/** What a suppression stops: all mail, or only mail with `transactional: false`. Position = the stored code: only ever append. */
export const COVERAGES = ['all', 'marketing'] as const
export type Coverage = (typeof COVERAGES)[number]

export const coverageCode = (coverage: Coverage): number => COVERAGES.indexOf(coverage)

/** Stored for "of every stream" and "of every list". */
export const EVERY = 0

const sql = prepared((db) => ({
  // In the order of the unique index, so the row that covers all mail comes first.
  find: db.prepare<{ reason: string }, [number, string, number, number, number]>(
    `SELECT reason FROM suppressions WHERE account_id = ? AND address = ? AND covers <= ? AND stream_id IN (0, ?) AND list_id IN (0, ?)
     ORDER BY covers, stream_id, list_id LIMIT 1`,
  ),
}))

/**
 * The form in which an address is kept and looked up: lower case with composed Unicode, the domain in A-labels, a local part without needless
 * quotes. The key of a key is itself. Takes any text.
 */
export const suppressionKey = (address: string): string =>
  // Lower case can take composed characters apart again.
  normaliseAddress(address).normalize('NFC')

/** An email as far as it decides whether a suppression stops it. */
export interface Covered {
  readonly accountId: number
  /** In any spelling. */
  readonly address: string
  readonly transactional: boolean
  /** Row id of its stream. */
  readonly streamId: number
  /** Row id of the contact list that it was sent to, if it was. */
  readonly listId?: number | undefined
}

/** Why the account may not send this email to the address; undefined when it may. The reason that stops the most mail comes first. */
export function suppressionOf(
  db: Database,
  { accountId, address, transactional, streamId, listId }: Covered,
): { reason: string } | undefined {
  const covers = coverageCode(transactional ? 'all' : 'marketing')
  return sql(db).find.get(accountId, suppressionKey(address), covers, streamId, listId ?? EVERY) ?? undefined
}
