/** @module Names of the members and API keys that filters offer, and that invitations name by id. */
import { useMemo } from 'react'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'

export interface KnownActors {
  readonly users: ReadonlyMap<string, string>
  /** Names of API keys, by id; empty for roles that may not see them. */
  readonly keys: ReadonlyMap<string, string>
}

const MAX_NAMES = 100

/** Empty until they are read; roles that may not see API keys get no names of them. */
export function useKnownActors(): KnownActors {
  const enabled = useAllowed('admin') === undefined
  const members = useData(read.team.listMembers({ per_page: MAX_NAMES })).data
  const keys = useData(read.apiKeys.list(), { enabled }).data
  return useMemo(
    () => ({
      users: new Map(members?.map(({ id, email }) => [id, email])),
      keys: new Map(keys?.map(({ id, name }) => [id, name])),
    }),
    [members, keys],
  )
}
