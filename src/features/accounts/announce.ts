/** @module Announces that who may act for an account, or whether it may send, has changed. */
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
