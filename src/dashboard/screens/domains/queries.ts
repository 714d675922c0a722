/** @module What several screens need of the domains of the account. */
import { useQueryClient } from '@tanstack/react-query'
import type { Domain } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { readAgain, useAll, usePage } from '../../api/data.ts'
import { useLiveEvents } from '../../api/live.tsx'

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
