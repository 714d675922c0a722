/** @module What several screens need of contact lists. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { read } from '../../api/client.ts'
import { forget, readAgain, useAll } from '../../api/data.ts'

export const useAllLists = () => useAll(read.contactLists.list({ per_page: 100 }))

/** A change of contacts. Lists show how many they have, so that everything of lists is read again. */
export function useContactChange<Input, Result>(change: (input: Input) => PromiseLike<Result>) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async (input: Input) => await change(input),
    onSuccess: () => {
      forget(queries, 'contactLists')
      readAgain(queries, 'contactLists')
    },
  })
}
