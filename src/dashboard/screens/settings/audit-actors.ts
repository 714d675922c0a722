/** @module Names of the members and API keys that the audit log names by id. */
import { useMemo } from 'react'
import type { MemberRecord } from '#features/people/team/model.ts'
import type { ApiKeyRecord } from '#features/setup/api-keys/model.ts'
import type { KnownActors } from './audit-words.ts'
import { type DataPage, useRead } from './queries.ts'

const MAX_NAMES = 100

/** Empty until they are read; roles that may not see API keys get no names of them. */
export function useKnownActors(): KnownActors {
  const members = useRead<DataPage<MemberRecord>>(['team', 'names'], '/v1/team', { per_page: MAX_NAMES }).data
  const keys = useRead<DataPage<ApiKeyRecord>>(['keys', 'names'], '/v1/api-keys').data
  return useMemo(
    () => ({
      users: new Map(members?.data.map(({ id, email }) => [id, email])),
      keys: new Map(keys?.data.map(({ id, name }) => [id, name])),
    }),
    [members, keys],
  )
}
