/** @module Decides which accounts the abuse watch monitors: those of watched plans that may send. Reads only. */
import type { Database } from 'bun:sqlite'
import { findSendingBlock } from '#features/core/accounts/pause.ts'
import { getPlanTerms, type Plan } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'

const sql = prepareStatements((db) => ({
  account: db.prepare<{ uuid: UuidBytes; plan: Plan }, [number]>('SELECT uuid, plan FROM accounts WHERE id = ?'),
}))

/**
 * The system actor for a monitored account; undefined if the account is deleted, blocked from sending, or on a plan
 * that is not monitored.
 */
export function findMonitoredAccount(
  { config }: Pick<App, 'config'>,
  db: Database,
  accountId: number,
): Actor | undefined {
  const account = sql(db).account.get(accountId)
  if (!account || !getPlanTerms(config, account.plan).isWatched || findSendingBlock(db, accountId) !== undefined)
    return undefined
  return createSystemActor({ accountId, accountUuid: account.uuid })
}
