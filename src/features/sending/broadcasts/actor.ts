/** @module Who began a broadcast, as it is kept with it: what is done for them later is done in their name. */
import type { Actor } from '#features/core/app/app.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'

/** JSON: who, without what they may do. */
export const formatStoredActor = ({ type, id }: Actor): string => JSON.stringify({ type, id })

/** The actor of a stored one. */
export function parseStoredActor(
  stored: string,
  account: { readonly accountId: number; readonly accountUuid: UuidBytes },
): Actor {
  const { type, id } = JSON.parse(stored) as Pick<Actor, 'type' | 'id'>
  return { accountId: account.accountId, accountUuid: formatUuid(account.accountUuid), type, id, scopes: new Set() }
}
