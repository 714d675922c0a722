/**
 * @module How much sandbox mail an account may have in a day: it costs no quota, and is captured, stored and shown like other mail. Counted in the transaction
 * that accepts it, for an account and its sub-accounts together.
 */
import type { Database } from 'bun:sqlite'
import type { App } from '#features/core/app/app.ts'
import { counterAt, countNow } from '#features/core/events/record.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { tooMany } from '#platform/errors.ts'
import { days } from '#platform/units.ts'
import { tenantOf } from './work-budget.ts'

const METRIC = 'accepted_sandbox'
const DAY_MS = days(1)

/** The counter of a day (UTC) has the day's first hour. */
const startOfDay = (at: Millis): Millis => at - (at % DAY_MS)

/** Throws 429 `sandbox_limit` when the day has no place left for so many recipients of sandbox mail. */
export function requireSandbox(
  { config, clock }: Pick<App, 'config' | 'clock'>,
  db: Database,
  accountId: number,
  recipients: number,
): void {
  const now = clock.now()
  if (recipients === 0) return
  if (counterAt(db, tenantOf(db, accountId), METRIC, startOfDay(now)) + recipients <= config.sandboxPerDay) return
  throw tooMany(
    'sandbox_limit',
    `The account has ${config.sandboxPerDay} recipients of sandbox mail a day (UTC), and they are used up; verify the domain, which ends its sandbox, or raise TASSIS_SANDBOX_PER_DAY.`,
    (startOfDay(now) + DAY_MS - now) / 1000,
  )
}

/** Takes recipients of sandbox mail from the day, or throws as `requireSandbox` does. */
export function takeSandbox(app: Pick<App, 'config' | 'clock'>, tx: Tx, accountId: number, recipients: number): void {
  if (recipients === 0) return
  requireSandbox(app, tx.db, accountId, recipients)
  countNow(tx, tenantOf(tx.db, accountId), METRIC, startOfDay(app.clock.now()), recipients)
}
