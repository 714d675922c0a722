/** @module Names of the members and API keys that the audit log names by id. */

import { useMemo } from 'react'
import type { MemberRecord } from '#features/people/team/model.ts'
import type { ApiKeyRecord } from '#features/setup/api-keys/model.ts'
import { useRecord } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import type { KnownActors } from './audit-format.ts'

const MAX_NAMES = 100

/** Empty until they are read; roles that may not see API keys get no names of them. */
export function useKnownActors(): KnownActors {
  const enabled = useAllowed('admin') === undefined
  const members = useRecord<MemberRecord[]>(['team', 'names'], '/v1/team', { query: { per_page: MAX_NAMES } }).data
  const keys = useRecord<ApiKeyRecord[]>(['keys', 'names'], '/v1/api-keys', { enabled }).data
  return useMemo(
    () => ({
      users: new Map(members?.map(({ id, email }) => [id, email])),
      keys: new Map(keys?.map(({ id, name }) => [id, name])),
    }),
    [members, keys],
  )
}
