/**
 * @module Announces that who may act for an account has changed (`accessChanged`), or whether it may send
 * (`sendingChanged`); ends what is open by revoked access.
 */

import type { Tx } from '#platform/db/commit.ts'
import type { App } from './app.ts'

type AccountSignal = 'accessChanged' | 'sendingChanged'

/** A key, session or role ended or changed. Called in the transaction of the change. */
export const announceAccessChange = (app: Pick<App, 'accessChanged'>, tx: Tx, accountId: number): void =>
  announce(app, 'accessChanged', tx, accountId)

/** The account was paused, resumed, switched or deleted. Called in the transaction of the change. */
export const announceSendingChange = (app: Pick<App, 'sendingChanged'>, tx: Tx, accountId: number): void =>
  announce(app, 'sendingChanged', tx, accountId)

function announce<S extends AccountSignal>(app: Pick<App, S>, signal: S, tx: Tx, accountId: number): void {
  // Inside the transaction as well: from here on no cache lets anybody in.
  app[signal].emit({ accountId })
  tx.afterCommit(() => app[signal].emit({ accountId }))
}

/**
 * Calls `onChanged` once a change of access is on disk: one that is undone must not end anything. Returns the function
 * that stops listening.
 */
export const listenForAccessChanges = (
  { accessChanged, db }: Pick<App, 'accessChanged' | 'db'>,
  onChanged: (accountId: number) => void,
): (() => void) =>
  accessChanged.listen(({ accountId }) => {
    if (!db.inTransaction) onChanged(accountId)
  })
