/** @module Names of the members and API keys that the audit log names by id. */
import { useMemo } from 'react'
import type { MemberRecord } from '#features/people/team/model.ts'
import type { ApiKeyRecord } from '#features/setup/api-keys/model.ts'
import type { PageOf } from '../../api/client.ts'
import { useAllowed } from '../../api/session.tsx'
import type { KnownActors } from './audit-format.ts'
import { useRead } from './queries.ts'

const MAX_NAMES = 100

/** Empty until they are read; roles that may not see API keys get no names of them. */
export function useKnownActors(): KnownActors {
  const isEnabled = useAllowed('admin') === undefined
  const members = useRead<PageOf<MemberRecord>>(['team', 'names'], '/v1/team', { per_page: MAX_NAMES }).data
  const keys = useRead<PageOf<ApiKeyRecord>>(['keys', 'names'], '/v1/api-keys', {}, { isEnabled }).data
  return useMemo(
    () => ({
      users: new Map(members?.data.map(({ id, email }) => [id, email])),
      keys: new Map(keys?.data.map(({ id, name }) => [id, name])),
    }),
    [members, keys],
  )
}
