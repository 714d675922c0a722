/** @module Removes what is over: sessions, links for passwords, invitations, networks of users. */
import type { App } from '#features/core/app/app.ts'
import { trimInvitations } from './invitations.ts'
import { trimKnownNetworks } from './known-networks.ts'
import { trimResets } from './password-reset.ts'
import { trimSessions } from './sessions.ts'

/** Some rows a transaction, until none is left. */
export async function trimPeople(app: App): Promise<void> {
  for (const trim of [trimSessions, trimResets, trimInvitations, trimKnownNetworks])
    while ((await app.commit.writeFromReserve((tx) => trim(tx, app.provenNow()))) > 0);
}
