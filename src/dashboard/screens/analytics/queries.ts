/** @module The streams, by which emails and stats are told apart. */
import { read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'

export const useStreams = () => usePage(read.streams.list({ per_page: 100 }), { staleTime: 300_000 })
