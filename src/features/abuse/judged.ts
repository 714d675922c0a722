/** @module Whether an account is judged at all: only accounts of `abusePlans` are, as long as they may send. Reads only. */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/app.ts'
import { type Config, ConfigError } from '#platform/config.ts'
import { prepared } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { stopOf } from '../accounts/pause.ts'
import { isPlan, PLANS } from '../accounts/plans.ts'
import { systemActor } from '../audit-logs/audit.ts'

const EVERY_PLAN = 'all'

const sql = prepared((db) => ({
  account: db.prepare<{ uuid: UuidBytes; plan: string }, [number]>('SELECT uuid, plan FROM accounts WHERE id = ?'),
}))

/** Throws ConfigError when TASSIS_ABUSE_PLANS names a plan that there is not. */
export function requireKnownAbusePlans({ abusePlans }: Pick<Config, 'abusePlans'>): void {
  if (abusePlans.every((name) => name === EVERY_PLAN || isPlan(name))) return
  throw new ConfigError(
    `TASSIS_ABUSE_PLANS is "${abusePlans.join(',')}"; allowed is a comma list of ${PLANS.join(', ')}, or ${EVERY_PLAN}.`,
  )
}

export const isJudgedPlan = ({ abusePlans }: Pick<Config, 'abusePlans'>, plan: string): boolean =>
  abusePlans.includes(plan) || abusePlans.includes(EVERY_PLAN)

/** The service acting on an account that is judged; undefined: it is gone, may not send anyway, or its plan is not judged. */
export function judgedAccount({ config }: Pick<App, 'config'>, db: Database, accountId: number): Actor | undefined {
  const account = sql(db).account.get(accountId)
  if (!account || !isJudgedPlan(config, account.plan) || stopOf(db, accountId) !== undefined) return undefined
  return systemActor({ accountId, accountUuid: account.uuid })
}
