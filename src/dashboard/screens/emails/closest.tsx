/** @module The addresses that are most like one that got no mail: it may be a typing error. */
import { Text } from '@mantine/core'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { formatDay } from '../../parts/format.ts'
import { PersonLink } from '../../parts/links.tsx'

/** What a search finds, the addresses like it, and since when mail is stored, as the end of a sentence. */
export function useClosest(q: string) {
  const { data: found, isLoading } = useData(read.search.search({ q }))
  const [start = ''] = q.split(/[@\s]/)
  const isUnknown = found?.closest.length === 0 && found.people.length === 0
  const similar = useData(read.search.search({ q: start }), { enabled: isUnknown && start !== q && start.length > 1 })
  const people = [
    ...new Set([...(found?.closest ?? []), ...(similar.data?.people.map(({ address }) => address) ?? [])]),
  ]
  return {
    found,
    isLoading: isLoading || similar.isLoading,
    people,
    since: found?.since ? ` since ${formatDay(new Date(found.since))}` : '',
  }
}

export const Closest = ({ people }: { readonly people: readonly string[] }) =>
  people.length > 0 && (
    <Text>
      Closest:{' '}
      {people.map((address, index) => (
        <span key={address}>
          {index > 0 && ', '}
          <PersonLink address={address} />
        </span>
      ))}
    </Text>
  )
