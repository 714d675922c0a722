/** @module Buttons between the pages of a list that has cursors or, with filters, numbers. */
import { Button, Group, Text } from '@mantine/core'
import type { Pagination } from '#platform/http/envelope.ts'

/** What the location keeps beside its URL: the cursors of the newer pages; an empty one is the first page. */
export interface ListState {
  readonly newer?: readonly string[]
}

export interface Place {
  readonly cursor?: string | undefined
  /** From 1. */
  readonly page: number
}

interface ListPagesProps {
  readonly pagination: Pagination
  readonly place: Place
  readonly newer: readonly string[]
  onGo(place: Place, state: ListState): void
}

const COUNTED = 10_000

export function ListPages({ pagination, place: { cursor, page }, newer, onGo }: ListPagesProps) {
  const { next_cursor: next, total, total_pages: pages } = pagination
  const isFirst = cursor === undefined && page === 1
  const hasOlder = next !== undefined || (cursor === undefined && page < pages)
  if (isFirst && !hasOlder) return null
  const goOlder = () =>
    next === undefined
      ? onGo({ page: page + 1 }, {})
      : onGo({ page: 1, cursor: next }, { newer: [...newer, cursor ?? ''] })
  const goNewer = () => {
    if (cursor === undefined) onGo({ page: page - 1 }, {})
    else onGo({ page: 1, cursor: newer.at(-1) || undefined }, { newer: newer.slice(0, -1) })
  }
  return (
    <Group justify="space-between" component="nav" aria-label="Pages">
      <Text size="sm" c="dimmed">
        {total >= COUNTED ? `${COUNTED.toLocaleString()} or more` : total.toLocaleString()} messages
      </Text>
      <Group gap="xs">
        {!isFirst && (
          <Button variant="default" size="xs" onClick={goNewer}>
            {cursor !== undefined && newer.length === 0 ? 'Newest' : 'Newer'}
          </Button>
        )}
        {hasOlder && (
          <Button variant="default" size="xs" onClick={goOlder}>
            Older
          </Button>
        )}
      </Group>
    </Group>
  )
}
