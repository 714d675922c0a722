/** @module The caller's own account: what it is and has used, and the change of what its owner may change. */
import type { Database } from 'bun:sqlite'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import type { Millis } from '#platform/clock.ts'
import { invalid } from '#platform/errors.ts'
import { type Account, accountOfActor, monthOf, monthStart, updateAccount, usedInMonth } from './accounts.ts'
import { type Pause, pauseOf } from './pause.ts'

/** An account with its use of the quota in the running month. */
export interface AccountState {
  readonly account: Account
  /** Recipients. */
  readonly usedThisMonth: number
  readonly quotaResetAt: Millis
  /** Its own, or that of its parent. */
  readonly pause: Pause | undefined
}

export function accountState(app: App, actor: Actor, db: Database = app.db): AccountState {
  const month = monthOf(app.clock.now())
  return {
    account: accountOfActor(app.config, db, actor.accountId),
    usedThisMonth: usedInMonth(db, actor.accountId, month),
    quotaResetAt: monthStart(month + 1),
    pause: pauseOf(db, actor.accountId),
  }
}

export interface AccountChanges {
  readonly name?: string | undefined
  readonly trackingDefault?: boolean | undefined
  /** Opens and clicks are kept without IP address and user agent. */
  readonly trackingPrivacy?: boolean | undefined
}

/** Changes the fields that are given; a change of nothing, or a name of spaces, is a 422. */
export function changeAccount(app: App, actor: Actor, change: AccountChanges): Promise<AccountState> {
  if (Object.values(change).every((value) => value === undefined))
    throw invalid('body', 'Give at least one of name, tracking_default and tracking_privacy.')
  const name = change.name?.trim()
  if (name === '') throw invalid('name', 'A name has 1 to 200 characters.')
  return app.commit.write((tx) => {
    const { account } = accountState(app, actor, tx.db)
    const { trackingDefault, trackingPrivacy } = change
    updateAccount(
      tx,
      account.id,
      {
        name: name ?? account.name,
        trackingDefault: trackingDefault ?? account.trackingDefault,
        trackingPrivacy: trackingPrivacy ?? account.trackingPrivacy,
      },
      app.eventTime(),
    )
    audit(app, tx, actor, {
      action: 'account.updated',
      resourceType: 'account',
      resourceId: actor.accountUuid,
      metadata: {
        ...(name !== undefined && { name }),
        ...(trackingDefault !== undefined && { tracking_default: trackingDefault }),
        ...(trackingPrivacy !== undefined && { tracking_privacy: trackingPrivacy }),
      },
    })
    return accountState(app, actor, tx.db)
  })
}
