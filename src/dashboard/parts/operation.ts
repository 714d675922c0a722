/** @module Work that goes on in the service after its request: imports, erasures. */
import type { Operation } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'

const POLL_MS = 1000

export const hasEnded = ({ status }: Operation): boolean => status === 'completed' || status === 'failed'

/** Read again every second until it has ended. */
export const useOperation = (id: string) =>
  useData(read.operations.get(id), {
    refetchInterval: ({ state: { data } }) => (data && hasEnded(data.data) ? false : POLL_MS),
  })
