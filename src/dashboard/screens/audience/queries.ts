/** @module What several screens need of contact lists. */
import { read } from '../../api/client.ts'
import { useAll } from '../../api/data.ts'

export const useAllLists = () => useAll(read.contactLists.list({ per_page: 100 }))
