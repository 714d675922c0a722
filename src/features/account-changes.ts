/**
 * @module Announces that who may act for an account, or whether it may send, has changed, and tells those who end what
 * is open by it.
 */
import type { App } from '#features/app.ts'
import type { Tx } from '#platform/db/commit.ts'

/** Called in the transaction of the change. */
export function announceAccountChange(
  { accountChanged }: Pick<App, 'accountChanged'>,
  tx: Tx,
  accountId: number,
): void {
  // Inside the transaction as well: from here on no cache lets anybody in.
  accountChanged.emit({ accountId })
  tx.afterCommit(() => accountChanged.emit({ accountId }))
}

/**
 * Calls `onChanged` once a change is on disk: one that is undone must not end anything. Returns the function that stops
 * listening.
 */
export const listenForAccountChanges = (
  { accountChanged, db }: Pick<App, 'accountChanged' | 'db'>,
  onChanged: (accountId: number) => void,
): (() => void) =>
  accountChanged.listen(({ accountId }) => {
    if (!db.inTransaction) onChanged(accountId)
  })
