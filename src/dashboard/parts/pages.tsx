/** @module Links between the numbered pages of a list. */
import { Button, Group, Text } from '@mantine/core'
import { Link, useSearch } from '@tanstack/react-router'

interface PagesProps {
  /** Path of the list. */
  readonly path: string
  /** From 1. */
  readonly page: number
  readonly totalPages: number
}

/** Shows nothing for a list of one page. The other filters in the URL are kept. */
export function Pages({ path, page, totalPages }: PagesProps) {
  const search: Readonly<Record<string, unknown>> = useSearch({ strict: false })
  if (page <= 1 && totalPages <= 1) return null
  // Links to a path that is not known here take no typed query.
  const toSearch = (wanted: number) => ({ ...search, page: wanted > 1 ? wanted : undefined }) as never
  return (
    <Group component="nav" aria-label="Pages">
      {page > 1 && (
        <Button component={Link} to={path} search={toSearch(page - 1)} variant="default">
          Newer
        </Button>
      )}
      {page < totalPages && (
        <Button component={Link} to={path} search={toSearch(page + 1)} variant="default">
          Older
        </Button>
      )}
      <Text size="sm">
        Page {page} of {totalPages}
      </Text>
    </Group>
  )
}
