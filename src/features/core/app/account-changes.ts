/**
 * @module Announces changed access to an account (`accessChanged`) and a changed right to send (`sendingChanged`), so
 * that caches drop their entries and open requests of revoked access end.
 */

import type { Tx } from '#platform/db/commit.ts'
import type { App } from './app.ts'

type AccountSignal = 'accessChanged' | 'sendingChanged'

/** Announces that a key, session or role ended or changed. Call it in the transaction of the change. */
export const announceAccessChange = (app: Pick<App, 'accessChanged'>, tx: Tx, accountId: number): void =>
  announce(app, 'accessChanged', tx, accountId)

/**
 * Announces that the account was paused, resumed, enabled, disabled or deleted. Call it in the transaction of the
 * change.
 */
export const announceSendingChange = (app: Pick<App, 'sendingChanged'>, tx: Tx, accountId: number): void =>
  announce(app, 'sendingChanged', tx, accountId)

function announce<S extends AccountSignal>(app: Pick<App, S>, signal: S, tx: Tx, accountId: number): void {
  // Emitted inside the transaction too, so that no cache grants revoked access from here on.
  app[signal].emit({ accountId })
  tx.afterCommit(() => app[signal].emit({ accountId }))
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
