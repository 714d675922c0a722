/** @module Links between the pages of a list that is read by cursors, so that its length does not matter. */
import { Button, Group, Text } from '@mantine/core'
import { useNavigate, useRouterState, useSearch } from '@tanstack/react-router'
import { parseCursor } from './search.ts'

/** What the location keeps beside its URL: the cursors of the pages before; an empty one is the first page. */
interface CursorState {
  readonly before?: readonly string[]
}

interface CursorPagesProps {
  /** `pagination.next_cursor`. */
  readonly next: string | undefined
  /** Says how many rows there are. */
  readonly summary: string
  /** Whether the newest rows are first. */
  readonly isByTime?: boolean
}

const WORDS = { first: 'First page', previous: 'Previous', next: 'Next' }
const WORDS_BY_TIME = { first: 'Newest', previous: 'Newer', next: 'Older' }

/** The other filters in the URL are kept. */
export function CursorPages({ next, summary, isByTime = false }: CursorPagesProps) {
  const words = isByTime ? WORDS_BY_TIME : WORDS
  const navigate = useNavigate()
  const search: Readonly<Record<string, unknown>> = useSearch({ strict: false })
  const { cursor } = parseCursor(search)
  const { before = [] } = useRouterState({ select: ({ location }) => location.state as CursorState })
  const go = (wanted: string | undefined, state: CursorState) =>
    void navigate({ to: '.', search: { ...search, cursor: wanted || undefined }, state } as never)
  return (
    <Group justify="space-between" component="nav" aria-label="Pages">
      <Text size="sm" c="dimmed">
        {summary}
      </Text>
      <Group gap="xs">
        {cursor !== undefined && (
          <Button variant="default" size="xs" onClick={() => go(before.at(-1), { before: before.slice(0, -1) })}>
            {before.length > 1 ? words.previous : words.first}
          </Button>
        )}
        {next !== undefined && (
          <Button variant="default" size="xs" onClick={() => go(next, { before: [...before, cursor ?? ''] })}>
            {words.next}
          </Button>
        )}
      </Group>
    </Group>
  )
}
