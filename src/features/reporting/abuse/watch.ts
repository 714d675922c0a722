/**
 * @module Checks every few seconds the accounts with recent activity: bounce and complaint rates, and bursts of created
 * domains, keys or sub-accounts. Pauses the accounts over a threshold. After a crash, the next start makes up for
 * missed checks.
 */

import type { Database } from 'bun:sqlite'
import { findAccountLogId } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { type DueLoop, startDueLoop } from '#platform/queue/due-loop.ts'
import { hours, type Millis, seconds } from '#platform/units.ts'
import { findMonitoredAccount, pauseAccount } from './pause.ts'
import { type Excess, findExcess, readAbuseStats } from './rates.ts'

/**
 * Audit log actions, each with the number within an hour that pauses the account. Entries are counted, so deleting the
 * objects changes nothing; what the operator created does not count.
 */
const THRESHOLDS: ReadonlyMap<string, number> = new Map([
  ['domain.created', 20],
  ['api_key.created', 30],
  ['sub_account.created', 20],
])

const WINDOW_MS = hours(1)

const sql = prepareStatements((db) => ({
  accounts: db.prepare<{ id: number }, []>('SELECT id FROM accounts ORDER BY id'),
  entries: db.prepare<{ id: number; accountId: number | null; action: string }, [number, number]>(
    'SELECT id, account_id AS accountId, action FROM audit_logs WHERE id > ? ORDER BY id LIMIT ?',
  ),
  // Uses the index of account and action, newest first, and therefore reads no more rows than the threshold.
  nth: db.prepare<{ createdAt: number; resumedAt: number | null }, [number, string, number]>(
    `SELECT audit_logs.created_at AS createdAt, resumed_at AS resumedAt FROM audit_logs JOIN accounts ON accounts.id = account_id
     WHERE account_id = ? AND action = ? AND actor_type <> 'operator' ORDER BY audit_logs.id DESC LIMIT 1 OFFSET ?`,
  ),
  newest: db.prepare<{ id: number | null }, []>('SELECT max(id) AS id FROM audit_logs'),
}))

/** The threshold that an account reached within the last hour; undefined when it reached none. */
function findBurstThreshold(app: App, db: Database, accountId: number, action: string): number | undefined {
  const threshold = THRESHOLDS.get(action)
  if (threshold === undefined) return undefined
  const nth = sql(db).nth.get(accountId, action, threshold - 1)
  if (!nth) return undefined
  const isWithin = nth.createdAt > app.clock.now() - WINDOW_MS && nth.createdAt > (nth.resumedAt ?? 0)
  return isWithin ? threshold : undefined
}

const findNewestAuditId = (db: Database): number => sql(db).newest.get()?.id ?? 0

/** Longest wait for a check: well below the 30 s in which a pause must take effect. */
const CHECK_INTERVAL_MS = seconds(5)
/** Accounts checked in one step: some 5 ms. */
const ACCOUNTS_PER_STEP = 50
/** Audit log entries read in one step, and entries before the newest that the first step after a start goes back. */
const ENTRIES_PER_STEP = 1000
const MAX_ENTRIES_AT_START = 20_000

export const RATE_REASONS: Readonly<Record<Excess, string>> = {
  bounces: 'Too many of its emails went to addresses that do not exist or refuse them.',
  complaints: 'Too many recipients complained about its emails.',
}

const BURST_REASON = 'Domains, API keys or sub-accounts were made in too quick succession.'

export function startAbuseWatch(app: App): DueLoop {
  /** Accounts with events since their last check; after a start, all accounts. */
  const changed = new Set(
    sql(app.db)
      .accounts.all()
      .map(({ id }) => id),
  )
  let entry = Math.max(0, findNewestAuditId(app.db) - MAX_ENTRIES_AT_START)
  /** The accounts of the current round; the loop waits only after checking all of them. */
  let round: number[] = []
  /** Creations not yet checked. */
  const creations = new Map<string, RecentCreation>()

  /** A failed check is retried later and delays no other account. */
  const tryCheck = async (accountId: number, judge: () => Promise<void>): Promise<boolean> => {
    try {
      await judge()
      return true
    } catch (error) {
      app.log.error({ err: error, account: findAccountLogId(app.db, accountId) }, 'abuse check failed; retrying')
      return false
    }
  }

  const step = async (ending: AbortSignal): Promise<Millis> => {
    if (round.length === 0) {
      round = [...changed]
      changed.clear()
    }
    for (const accountId of round.splice(0, ACCOUNTS_PER_STEP)) {
      if (ending.aborted) break
      if (!(await tryCheck(accountId, () => checkRates(app, accountId)))) changed.add(accountId)
    }
    const entries = sql(app.db).entries.all(entry, ENTRIES_PER_STEP)
    for (const { accountId, action } of entries)
      if (accountId !== null && THRESHOLDS.has(action)) creations.set(`${action} ${accountId}`, { accountId, action })
    entry = entries.at(-1)?.id ?? entry
    for (const [key, one] of creations)
      if (await tryCheck(one.accountId, () => checkBurst(app, one))) creations.delete(key)
    const isBehind = round.length > 0 || entries.length === ENTRIES_PER_STEP
    return app.clock.now() + (isBehind ? 0 : CHECK_INTERVAL_MS)
  }

  const onEnded = app.eventsRecorded.listen(({ accountId }) => void changed.add(accountId))
  return startDueLoop({ name: 'abuse', clock: app.clock, log: app.log, step, onEnded })
}

async function checkRates(app: App, accountId: number): Promise<void> {
  const excess = (db: App['db']) => findExcess(readAbuseStats(db, accountId, app.eventTime()))
  if (excess(app.db) === undefined || !findMonitoredAccount(app, app.db, accountId)) return
  await app.commit.writeFromReserve((tx) => {
    const actor = findMonitoredAccount(app, tx.db, accountId)
    const found = excess(tx.db)
    if (!actor || !found) return
    const detail = { ...readAbuseStats(tx.db, accountId, app.eventTime()) }
    pauseAccount(app, tx, actor, { source: 'reputation', reason: RATE_REASONS[found], detail })
    app.log.warn({ account: actor.accountUuid, excess: found, ...detail }, 'account paused')
  })
}

interface RecentCreation {
  readonly accountId: number
  readonly action: string
}

async function checkBurst(app: App, { accountId, action }: RecentCreation): Promise<void> {
  if (!findBurstThreshold(app, app.db, accountId, action) || !findMonitoredAccount(app, app.db, accountId)) return
  await app.commit.writeFromReserve((tx) => {
    const actor = findMonitoredAccount(app, tx.db, accountId)
    if (!actor) return
    const detail = { action, within_an_hour: findBurstThreshold(app, tx.db, accountId, action) }
    pauseAccount(app, tx, actor, { source: 'registration_burst', reason: BURST_REASON, detail })
    app.log.warn({ account: actor.accountUuid, ...detail }, 'account paused')
  })
}
