/** @module Changes the caller's own account: its name and its tracking defaults. */
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { invalid } from '#platform/errors.ts'
import { type AccountState, readAccountState, updateAccount } from './accounts.ts'

export interface AccountChanges {
  readonly name?: string | undefined
  readonly trackingDefault?: boolean | undefined
  /** Whether opens and clicks are stored without IP address and user agent. */
  readonly trackingPrivacy?: boolean | undefined
}

/** Changes the provided fields. Throws 422 when none is provided or the name is blank. */
export function changeAccount(app: App, actor: Actor, change: AccountChanges): Promise<AccountState> {
  if (Object.values(change).every((value) => value === undefined))
    throw invalid('body', 'At least one of name, tracking_default and tracking_privacy must be set.')
  const name = change.name?.trim()
  if (name === '') throw invalid('name', 'The name must have 1 to 200 characters.')
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
