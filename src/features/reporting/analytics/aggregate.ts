/** @module The figures of an account together with those of its sub-accounts. */
import { type Static, Type } from '@sinclair/typebox'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { listSubAccounts } from '#features/core/accounts/rows.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import type { DailyStats } from '#features/core/events/daily-stats.ts'
import { yieldToEventLoop } from '#platform/clock.ts'
import { Nullable, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { figuresOf, type MachineFigures, machineFiguresOf, NO_FIGURES, sumOf } from './figures.ts'
import { Overview, overviewWire } from './model.ts'
import type { Period } from './period.ts'
import { createTurns } from './turns.ts'

/** Accounts that are told one by one; all of them are in the totals. */
const MAX_TOLD = 1000
const PAGE = 100

const AccountFigures = Type.Composite([
  Type.Object({
    account_id: Uuid({ description: 'Id of the account or sub-account.' }),
    name: Type.String({ description: 'Its name.' }),
    parent_account_id: Nullable(Uuid(), { description: 'Null: it is the account that the key belongs to.' }),
  }),
  Overview,
])
type AccountFigures = Static<typeof AccountFigures>

export const Aggregate = Type.Composite([
  Overview,
  Type.Object({
    total_accounts: Type.Integer({ description: 'Accounts in the totals: your own and your sub-accounts.' }),
    accounts: Type.Array(AccountFigures, {
      description: `The same of each, those that sent most first; at most ${MAX_TOLD}.`,
    }),
  }),
])
export type Aggregate = Static<typeof Aggregate>

interface Told {
  readonly id: string
  readonly name: string
  readonly isParent: boolean
  readonly figures: DailyStats
  readonly machine: MachineFigures
}

const inTurn = createTurns()

/**
 * Sums up a period over an account and its sub-accounts; others have their turn between two accounts, which take some 2 ms each at most. Throws 429 when
 * too many of the account's requests wait for it.
 */
export const aggregateOf = (app: App, actor: Actor, period: Period): Promise<Aggregate> =>
  inTurn(app.db, actor.accountId, () => aggregate(app, actor, period))

async function aggregate(app: App, actor: Actor, period: Period): Promise<Aggregate> {
  const own = getAccount(app.config, app.db, actor.accountId)
  const told: Told[] = [
    {
      id: actor.accountUuid,
      name: own.name,
      isParent: true,
      figures: figuresOf(app.db, own.id, period),
      machine: machineFiguresOf(app.db, own.id, period),
    },
  ]
  let totals = told[0]?.figures ?? NO_FIGURES
  let machine = told[0]?.machine ?? { opens: 0, clicks: 0 }
  let count = 1
  // By id, not by position: some may be made or deleted meanwhile.
  for (let below = Number.MAX_SAFE_INTEGER; ; ) {
    const page = listSubAccounts(app.config, app.db, own.id, {
      limit: PAGE,
      offset: 0,
      after: below === undefined ? undefined : [below],
    })
    for (const { id, uuid, name } of page) {
      await yieldToEventLoop()
      const figures = figuresOf(app.db, id, period)
      const ofMachines = machineFiguresOf(app.db, id, period)
      totals = sumOf([totals, figures])
      machine = { opens: machine.opens + ofMachines.opens, clicks: machine.clicks + ofMachines.clicks }
      count++
      told.push({ id: formatUuid(uuid), name, isParent: false, figures, machine: ofMachines })
    }
    const last = page.at(-1)
    if (!last) break
    below = last.id
  }
  return {
    ...overviewWire(totals, machine),
    total_accounts: count,
    accounts: told
      .sort(
        (a, b) => b.figures.sent - a.figures.sent || Number(b.isParent) - Number(a.isParent) || (a.id < b.id ? -1 : 1),
      )
      .slice(0, MAX_TOLD)
      .map(
        ({ id, name, isParent, figures, machine }): AccountFigures => ({
          account_id: id,
          name,
          parent_account_id: isParent ? null : actor.accountUuid,
          ...overviewWire(figures, machine),
        }),
      ),
  }
}
