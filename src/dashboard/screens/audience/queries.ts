/** @module Changes of the contacts of a list. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { forget, readAgain } from '../../api/data.ts'

/** Lists show how many contacts they have, so that everything of lists is read again. */
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
