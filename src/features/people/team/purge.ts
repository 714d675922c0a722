/** @module Removes what is over: sessions, links for passwords, invitations, networks of users. */
import type { App } from '#features/core/app/app.ts'
import { purgeInvitations } from './invitations.ts'
import { purgeKnownNetworks } from './known-networks.ts'
import { purgeResets } from './password-reset.ts'
import { purgeSessions } from './sessions.ts'

/** Some rows a transaction, until none is left. */
export async function purgeExpiredAuth(app: App): Promise<void> {
  for (const purge of [purgeSessions, purgeResets, purgeInvitations, purgeKnownNetworks])
    while ((await app.commit.writeFromReserve((tx) => purge(tx, app.confirmedNow()))) > 0);
}
