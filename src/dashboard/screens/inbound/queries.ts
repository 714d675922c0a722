/** @module What several screens need of received mail. */
import { read } from '../../api/client.ts'
import { useAll } from '../../api/data.ts'

export const useAllRoutes = () => useAll(read.inboundRoutes.list({ per_page: 100 }), { staleTime: 60_000 })
