/** @module Decides which accounts the abuse watch monitors: those of `abusePlans` that may send. Reads only. */
import type { Database } from 'bun:sqlite'
import { findSendingBlock } from '#features/core/accounts/pause.ts'
import { includesPlan } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { createSystemActor } from '#features/core/audit-logs/audit.ts'
import type { Config } from '#platform/config.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'

const sql = prepareStatements((db) => ({
  account: db.prepare<{ uuid: UuidBytes; plan: string }, [number]>('SELECT uuid, plan FROM accounts WHERE id = ?'),
}))

export const isMonitoredPlan = ({ abusePlans }: Pick<Config, 'abusePlans'>, plan: string): boolean =>
  includesPlan(abusePlans, plan)

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
  if (!account || !isMonitoredPlan(config, account.plan) || findSendingBlock(db, accountId) !== undefined)
    return undefined
  return createSystemActor({ accountId, accountUuid: account.uuid })
}
