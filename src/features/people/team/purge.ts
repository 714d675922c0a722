/** @module Deletes what has expired: sessions, invitations, password links, networks of users. */
import type { App } from '#features/core/app/app.ts'
import { purgeInvitations } from './invitations.ts'
import { purgeKnownNetworks } from './known-networks.ts'
import { purgeResets } from './password-reset.ts'
import { purgeSessions } from './sessions.ts'

/** One batch per transaction, until nothing is left. */
export async function purgeExpiredAuth(app: App): Promise<void> {
  for (const purge of [purgeSessions, purgeResets, purgeInvitations, purgeKnownNetworks])
    while ((await app.commit.writeFromReserve((tx) => purge(tx, app.confirmedNow()))) > 0);
}
