/**
 * @module Announces changed access to an account (`accessChanged`) and a changed right to send (`sendingChanged`), so
 * that caches drop their entries and open requests of revoked access end.
 */

import type { Tx } from '#platform/db/open.ts'
import type { App } from './app.ts'

/** Announces that a key, session or role ended or changed. Call it in the transaction of the change. */
export const announceAccessChange = ({ accessChanged }: Pick<App, 'accessChanged'>, tx: Tx, accountId: number): void =>
  announce(accessChanged, tx, accountId)

/**
 * Announces that the account was paused, resumed, enabled, disabled or deleted. Call it in the transaction of the
 * change.
 */
export const announceSendingChange = (
  { sendingChanged }: Pick<App, 'sendingChanged'>,
  tx: Tx,
  accountId: number,
): void => announce(sendingChanged, tx, accountId)

function announce(signal: App['accessChanged'], tx: Tx, accountId: number): void {
  // The signal is also emitted inside the transaction, so that from here on no cache grants revoked access.
  signal.emit({ accountId })
  tx.afterCommit(() => signal.emit({ accountId }))
}

/**
 * Calls `onChanged` once a change of access is committed: a transaction that rolls back must not end any request.
 * Returns the function that stops listening.
 */
export const listenForAccessChanges = (
  { accessChanged, db }: Pick<App, 'accessChanged' | 'db'>,
  onChanged: (accountId: number) => void,
): (() => void) =>
  accessChanged.listen(({ accountId }) => {
    if (!db.inTransaction) onChanged(accountId)
  })
