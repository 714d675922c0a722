/** @module The change of the caller's own account: what its owner may change. */
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { invalid } from '#platform/errors.ts'
import { type AccountState, readAccountState, updateAccount } from './accounts.ts'

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
    const { account } = readAccountState(app, actor, tx.db)
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
    return readAccountState(app, actor, tx.db)
  })
}
