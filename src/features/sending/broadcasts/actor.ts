/** @module Stores the actor who started a broadcast, so that its later steps run in that actor's name. */
import type { Actor } from '#features/core/app/app.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'

/** JSON of the actor, without scopes. */
export const formatStoredActor = ({ type, id }: Actor): string => JSON.stringify({ type, id })

/** The actor that `formatStoredActor` stored, without scopes. */
export function parseStoredActor(
  stored: string,
  account: { readonly accountId: number; readonly accountUuid: UuidBytes },
): Actor {
  const { type, id } = JSON.parse(stored) as Pick<Actor, 'type' | 'id'>
  return { accountId: account.accountId, accountUuid: formatUuid(account.accountUuid), type, id, scopes: new Set() }
}
