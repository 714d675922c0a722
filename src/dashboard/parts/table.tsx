/** @module Lists of records: a table on wide screens, cards on narrow ones; their pages, and the button that offers new rows. */
import { Button, Group, Stack, Table, Text, TextInput } from '@mantine/core'
import { useMediaQuery } from '@mantine/hooks'
import type { UseQueryResult } from '@tanstack/react-query'
import { Link, useNavigate, useRouterState, useSearch } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import type { PageOf } from '../api/data.ts'
import { bindText, Form } from './form.tsx'
import { ROW_MARK, SEARCH_MARK } from './keyboard.tsx'
import { ErrorState, LoadingState, QueryView } from './page.tsx'
import type { LiveRows } from './rows.ts'
import { parseCursor } from './search.ts'

export interface Column<Row> {
  readonly header: string
  /** The first column has the link of the row. */
  cell(row: Row): ReactNode
  /** CSS width; the columns without one share the rest. */
  readonly width?: string
}

interface DataTableProps<Row> {
  /** Names the list for screen readers. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Whether the columns need more room than a tablet has. */
  readonly isWide?: boolean
  toKey(row: Row): string
}

/** Also narrow: a wide screen with large text, because media queries count in the browser's text size. */
const NARROW = '(max-width: 47.99em)'
const NARROW_FOR_WIDE = '(max-width: 63.99em)'

export function DataTable<Row>({ label, columns, rows, isWide = false, toKey }: DataTableProps<Row>) {
  const isNarrow = useMediaQuery(isWide ? NARROW_FOR_WIDE : NARROW, undefined, { getInitialValueInEffect: false })
  if (isNarrow)
    return (
      <ul className="cards" aria-label={label}>
        {rows.map((row) => (
          <li key={toKey(row)} {...ROW_MARK}>
            <dl>
              {columns.map(({ header, cell }) => (
                <div key={header}>
                  <dt>{header}</dt>
                  <dd>{cell(row)}</dd>
                </div>
              ))}
            </dl>
          </li>
        ))}
      </ul>
    )
  return (
    <Table className="data-table" aria-label={label} layout="fixed" verticalSpacing={6} highlightOnHover>
      <Table.Thead>
        <Table.Tr>
          {columns.map(({ header, width }) => (
            <Table.Th key={header} scope="col" {...(width !== undefined && { w: width })}>
              {header}
            </Table.Th>
          ))}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map((row) => (
          <Table.Tr key={toKey(row)} {...ROW_MARK}>
            {columns.map(({ header, cell }) => (
              <Table.Td key={header}>{cell(row)}</Table.Td>
            ))}
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  )
}

interface NewRowsProps {
  readonly count: number
  /** Whether there may be more than were counted. */
  readonly hasMore?: boolean
  /** Whether it is beside something else. */
  readonly isInline?: boolean
  onShow(): void
}

/** Always in the page, so that screen readers announce a change and the list does not move. */
export const NewRows = ({ count, hasMore = false, isInline = false, onShow }: NewRowsProps) => (
  <div role="status" style={isInline ? {} : { minHeight: '1.875rem' }}>
    {count > 0 && (
      <Button
        variant="light"
        size="xs"
        fullWidth={!isInline}
        onClick={() => {
          onShow()
          if (!isInline) scrollTo({ top: 0 })
        }}
      >
        {count}
        {hasMore && '+'} new
      </Button>
    )}
  </div>
)

interface LiveViewProps<Row> {
  readonly query: Pick<UseQueryResult, 'error' | 'isPlaceholderData' | 'refetch'>
  readonly list: LiveRows<Row>
  /** Whether the page shows the newest rows, so that new ones belong to it. */
  readonly isNewest: boolean
  /** Shown instead when there are no rows; undefined: the list is shown all the same. */
  readonly empty: ReactNode
  /** Whether a field of a filter shows the error. */
  readonly isErrorShown?: boolean
  readonly children: (page: PageOf<Row>) => ReactNode
}

/** A list of `useLiveRows`: its error, and what it shows while it is loaded, read again, or empty. */
export function LiveView<Row>(props: LiveViewProps<Row>) {
  const { query, list, isNewest, empty, isErrorShown = false, children } = props
  const { page, newCount, hasMoreNew, showNew } = list
  return (
    <>
      {query.error && !isErrorShown && <ErrorState error={query.error} onRetry={() => query.refetch()} />}
      {!page ? (
        !query.error && <LoadingState />
      ) : page.data.length === 0 && empty !== undefined ? (
        empty
      ) : (
        <Stack gap="xs" style={{ opacity: query.isPlaceholderData ? 0.6 : 1 }}>
          <NewRows count={isNewest ? newCount : 0} hasMore={hasMoreNew} onShow={showNew} />
          {children(page)}
        </Stack>
      )}
    </>
  )
}

interface PagesProps {
  readonly path: string
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

/** What the location keeps beside its URL: the cursors of the pages before; an empty one is the first page. */
interface CursorState {
  readonly before?: readonly string[]
}

interface CursorPagesProps {
  /** `pagination.next_cursor`. */
  readonly next: string | undefined
  readonly summary: string
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

interface PagedTableProps<Row> extends Omit<DataTableProps<Row>, 'rows' | 'toKey'> {
  readonly query: UseQueryResult<PageOf<Row>>
  /** Path of the list, and which page of it is shown. */
  readonly path: string
  readonly page: number
  /** What its rows are, such as "domains". */
  readonly noun: string
  /** Shown instead of the list while there is nothing in it. */
  readonly empty?: ReactNode
  /** The rows of a list that does not jump. */
  readonly list?: LiveRows<Row>
  readonly children?: ReactNode
}

export const PagedTable = <Row extends { readonly id: string }>(props: PagedTableProps<Row>) => {
  const { query, path, page, noun, empty, list, children, ...table } = props
  return (
    <QueryView query={query}>
      {({ data, pagination }) =>
        pagination.total === 0 && empty !== undefined ? (
          empty
        ) : (
          <>
            {list && <NewRows count={list.newCount} hasMore={list.hasMoreNew} onShow={list.showNew} />}
            <DataTable {...table} rows={list?.page?.data ?? data} toKey={({ id }) => id} />
            {data.length === 0 && <Text>There are no {noun} on this page.</Text>}
            <Pages path={path} page={page} totalPages={pagination.total_pages} />
            {children}
          </>
        )
      }
    </QueryView>
  )
}

/** Whether a list has nothing at all. */
export const isEmpty = ({ data }: UseQueryResult<PageOf<unknown>>): boolean => data?.pagination.total === 0

interface SearchFormProps {
  readonly label: string
  readonly placeholder?: string
  readonly value: string | undefined
  /** What the server finds wrong with it. */
  readonly error?: string | undefined
  readonly maxLength?: number
  readonly inputMode?: 'email'
  /** The most width of the field; default: that of an address. */
  readonly maw?: number | 'none'
  readonly name?: string
  readonly button?: 'default' | 'filled'
  readonly children?: ReactNode
  onSearch(value: string | undefined): void
}

/** The search field of a list; it takes effect with Enter, and is kept in the URL. */
export function SearchForm(props: SearchFormProps) {
  const { value, maxLength = 320, maw = 420, name = 'Filters', button = 'filled', children, onSearch, ...field } = props
  const [text, setText] = useState(value ?? '')
  useEffect(() => setText(value ?? ''), [value])
  return (
    <Form isRow aria-label={name} onSubmit={() => onSearch(text.trim() === '' ? undefined : text.trim())}>
      <TextInput
        {...SEARCH_MARK}
        {...field}
        type="search"
        {...bindText(text, setText)}
        flex="1 1 14rem"
        maw={maw}
        maxLength={maxLength}
        autoComplete="off"
        spellCheck={false}
      />
      {children}
      <Button type="submit" variant={button}>
        Search
      </Button>
    </Form>
  )
}
