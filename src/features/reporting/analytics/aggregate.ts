/** @module Sums the stats of an account and its sub-accounts. */
import { type Static, Type } from '@sinclair/typebox'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { listSubAccounts } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import type { DailyStats } from '#features/core/events/daily-stats.ts'
import { Nullable, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { createAccountQueue } from './account-queue.ts'
import { Overview, toOverviewWire } from './model.ts'
import type { Period } from './period.ts'
import { addStats, type MachineStats, NO_STATS, readMachineStats, sumStats } from './stats.ts'

/** Maximum number of accounts listed individually; the totals include all accounts. */
const MAX_LISTED_ACCOUNTS = 1000
const PAGE_SIZE = 100

const AccountStats = Type.Composite([
  Type.Object({
    account_id: Uuid({ description: 'Id of the account or sub-account.' }),
    name: Type.String({ description: 'Its name.' }),
    parent_account_id: Nullable(Uuid(), { description: 'Null for the account that owns the key.' }),
  }),
  Overview,
])
type AccountStats = Static<typeof AccountStats>

export const Aggregate = Type.Composite([
  Overview,
  Type.Object({
    total_accounts: Type.Integer({ description: 'Accounts in the totals: your own and your sub-accounts.' }),
    accounts: Type.Array(AccountStats, {
      description: `The same stats for each account, busiest first; at most ${MAX_LISTED_ACCOUNTS}.`,
    }),
  }),
])
export type Aggregate = Static<typeof Aggregate>

interface AccountEntry {
  readonly id: string
  readonly name: string
  readonly isParent: boolean
  readonly figures: DailyStats
  readonly machine: MachineStats
}

const runQueued = createAccountQueue()

/**
 * Sums a period over an account and its sub-accounts. Yields to the event loop between accounts, which take at most
 * some 2 ms each. Throws 429 when too many of the account's requests wait.
 */
export const aggregateStats = (app: App, actor: Actor, period: Period): Promise<Aggregate> =>
  runQueued(app.db, actor.accountId, () => aggregate(app, actor, period))

async function aggregate(app: App, actor: Actor, period: Period): Promise<Aggregate> {
  const parent = getAccount(app.config, app.db, actor.accountId)
  const entries: AccountEntry[] = [
    {
      id: actor.accountUuid,
      name: parent.name,
      isParent: true,
      figures: sumStats(app.db, parent.id, period),
      machine: readMachineStats(app.db, parent.id, period),
    },
  ]
  let totals = entries[0]?.figures ?? NO_STATS
  let machine = entries[0]?.machine ?? { opens: 0, clicks: 0 }
  let count = 1
  // Pages follow the id, not an offset: accounts may be created or deleted between two pages.
  for (let below = Number.MAX_SAFE_INTEGER; ; ) {
    const page = listSubAccounts(app.config, app.db, parent.id, {
      limit: PAGE_SIZE,
      offset: 0,
      after: below === undefined ? undefined : [below],
    })
    for (const { id, uuid, name } of page) {
      await yieldToEventLoop()
      const stats = sumStats(app.db, id, period)
      const machineStats = readMachineStats(app.db, id, period)
      totals = addStats([totals, stats])
      machine = { opens: machine.opens + machineStats.opens, clicks: machine.clicks + machineStats.clicks }
      count++
      entries.push({ id: formatUuid(uuid), name, isParent: false, figures: stats, machine: machineStats })
    }
    const last = page.at(-1)
    if (!last) break
    below = last.id
  }
  return {
    ...toOverviewWire(totals, machine),
    total_accounts: count,
    accounts: entries
      .sort(
        (a, b) => b.figures.sent - a.figures.sent || Number(b.isParent) - Number(a.isParent) || (a.id < b.id ? -1 : 1),
      )
      .slice(0, MAX_LISTED_ACCOUNTS)
      .map(
        ({ id, name, isParent, figures: stats, machine }): AccountStats => ({
          account_id: id,
          name,
          parent_account_id: isParent ? null : actor.accountUuid,
          ...toOverviewWire(stats, machine),
        }),
      ),
  }
}
