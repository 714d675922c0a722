/** @module What several screens read in the same way: domains, lists, routes, streams, names of users and keys, work that goes on. */
import { useQueryClient } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { Domain, Operation } from '#client/api.ts'
import { read } from '../api/client.ts'
import { readAgain, useAll, useData, usePage } from '../api/data.ts'
import { useLiveEvents } from '../api/live.tsx'
import { useAllowed } from '../api/session.tsx'

export const useAllDomains = () => useAll(read.domains.list({ per_page: 100 }), { staleTime: 60_000 })

/** The domain for an example: a verified one if there is any. Undefined without a domain. */
export function useExampleDomain(): Domain | undefined {
  const { data } = usePage(read.domains.list({ page: 1 }))
  return data?.data.find(({ status }) => status === 'verified') ?? data?.data[0]
}

/** Reads domains again when an event reports that one of them lost or regained its records. */
export function useDomainEvents(): void {
  const queries = useQueryClient()
  useLiveEvents(({ type }) => {
    if (type.startsWith('domain.')) readAgain(queries, 'domains')
  })
}

export const useAllLists = () => useAll(read.contactLists.list({ per_page: 100 }))

export const useAllRoutes = () => useAll(read.inboundRoutes.list({ per_page: 100 }), { staleTime: 60_000 })

export const useStreams = () => usePage(read.streams.list({ per_page: 100 }), { staleTime: 300_000 })

const MAX_NAMES = 100

/** Names by ids, empty until they are read; roles that may not see API keys get no names of them. */
export function useKnownActors() {
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

/** Of imports and erasures, which go on in the service after their request. */
const POLL_MS = 1000

export const hasEnded = ({ status }: Operation): boolean => status === 'completed' || status === 'failed'

/** Read again every second until it has ended. */
export const useOperation = (id: string) =>
  useData(read.operations.get(id), {
    refetchInterval: ({ state: { data } }) => (data && hasEnded(data.data) ? false : POLL_MS),
  })
