/** @module The screen of a list: its filters, its rows, its pages, and what it says without rows. */
import { Button, Group, Text } from '@mantine/core'
import type { UseQueryResult } from '@tanstack/react-query'
import { type HistoryState, useNavigate, useRouterState, useSearch } from '@tanstack/react-router'
import type { ComponentProps, ReactNode } from 'react'
import type { Event } from '#client/api.ts'
import type { Read } from '../api/client.ts'
import { type PageOf, type PageOptions, usePage } from '../api/data.ts'
import { useReadAgainAfter } from '../api/live.tsx'
import { ActionButton } from './buttons.tsx'
import { toWords } from './fields.ts'
import { type Choices, FilterForm } from './filter-form.tsx'
import { type Filters, type FilterValues, keep, readList, type Target, toQuery } from './filters.ts'
import { findFieldError } from './form.tsx'
import { formatCount, toPlural } from './format.ts'
import { EmptyState, type EmptyStateProps, ErrorState, LoadingState, Page } from './page.tsx'
import { type SteadyRows, useSteadyRows } from './rows.ts'
import { type Column, DataTable, toId } from './table.tsx'

const NO_FILTERS: Filters = {}

export interface ListOptions<Row> extends PageOptions<PageOf<Row>> {
  /** Reads a page; the names of the filters are those of its query. */
  read(query: Readonly<Record<string, string | undefined>>): Read<PromiseLike<PageOf<Row>>>
  readonly filters?: Filters
  /** Whether the rows stay where they are while the list is read again. */
  readonly isSteady?: boolean
  /** The path whose query has the filters; by default that of the screen. */
  readonly path?: string
  toKey?(row: Row): string
  /** Whether only so many rows are counted with these filters. */
  isCapped?(values: FilterValues): boolean
  /** Whether the list is read again after an event. */
  isConcerned?(event: Event): boolean
}

export interface List<Row> extends SteadyRows<PageOf<Row>> {
  readonly query: UseQueryResult<PageOf<Row>>
  readonly filters: Filters
  readonly values: FilterValues
  readonly isSteady: boolean
  readonly isFirstPage: boolean
  readonly isFiltered: boolean
  readonly isCapped: boolean
  /** Whether there is nothing at all. */
  readonly isEmpty: boolean
  toKey(row: Row): string
  filter(values: FilterValues): void
}

/** A list whose filters and page are in the URL. */
export function useList<Row extends object>(options: ListOptions<Row>): List<Row> {
  const {
    read,
    filters = NO_FILTERS,
    isSteady = false,
    path = '.',
    toKey = toId,
    isCapped = () => false,
    isConcerned = () => false,
    ...rest
  } = options
  const { cursor, ...values } = readList(filters)(useSearch({ strict: false }))
  const navigate = useNavigate()
  const query = usePage(read({ ...toQuery(values), cursor }), rest)
  const steady = useSteadyRows(query, JSON.stringify([values, cursor]), toKey)
  useReadAgainAfter(query, isConcerned)
  const page = isSteady ? steady.page : query.data
  const isFiltered = Object.keys(values).length > 0
  return {
    ...steady,
    query,
    page,
    filters,
    values,
    toKey,
    isSteady,
    isFirstPage: cursor === undefined,
    isFiltered,
    isCapped: isFiltered && isCapped(values),
    isEmpty: page?.data.length === 0 && cursor === undefined && !isFiltered,
    filter: (next) => void navigate({ to: path, search: readList(filters)(next) }),
  }
}

interface ListViewProps<Row> {
  readonly list: List<Row>
  readonly columns: readonly Column<Row>[]
  readonly isWide?: boolean
  /** One of its rows, such as "domain". */
  readonly noun: string
  /** Instead of a list without anything. */
  readonly empty: ReactNode
  /** Advice when nothing matches the filters. */
  readonly advice?: string
  /** What is said then instead. */
  readonly noMatch?: ReactNode
  readonly choices?: Choices
}

export function ListView<Row>({ columns, isWide = false, choices, ...props }: ListViewProps<Row>) {
  const { list, noun } = props
  return (
    <div className="list-view">
      {!list.isEmpty && <ListFilters list={list} {...(choices && { choices })} />}
      <ListBody {...props}>
        {(rows) => (
          <DataTable label={toWords(toPlural(noun))} columns={columns} rows={rows} isWide={isWide} toKey={list.toKey} />
        )}
      </ListBody>
    </div>
  )
}

export const ListFilters = <Row,>({ list, choices = {} }: { readonly list: List<Row>; readonly choices?: Choices }) =>
  Object.entries(list.filters).some(([name, { isHidden }]) => !isHidden || list.values[name] !== undefined) && (
    <FilterForm
      filters={list.filters}
      values={list.values}
      choices={choices}
      error={list.query.error}
      onChange={list.filter}
    />
  )

interface ListBodyProps<Row> extends Pick<ListViewProps<Row>, 'list' | 'noun' | 'empty' | 'advice' | 'noMatch'> {
  readonly children: (rows: readonly Row[]) => ReactNode
}

/** The rows of a list with its pages; and what it shows while it is loaded, read again, or empty. */
export function ListBody<Row>({ list, noun, empty, advice, noMatch, children }: ListBodyProps<Row>) {
  const { query, page, isEmpty } = list
  const isErrorShown = Object.keys(list.filters).some((name) => findFieldError(query.error, name) !== undefined)
  return (
    <>
      {query.error && !isErrorShown && <ErrorState error={query.error} onRetry={() => query.refetch()} />}
      {!page ? (
        !query.error && <LoadingState />
      ) : isEmpty ? (
        empty
      ) : (
        <div className="list" style={{ opacity: query.isPlaceholderData ? 0.6 : 1 }}>
          {list.isSteady && list.isFirstPage && <NewRows list={list} />}
          {page.data.length > 0
            ? children(page.data)
            : (list.isFirstPage && noMatch) || <NoMatch list={list} noun={noun} advice={advice} />}
          {(page.data.length > 0 || !list.isFirstPage) && <ListPages list={list} noun={noun} />}
        </div>
      )}
    </>
  )
}

interface FrameProps extends Pick<ComponentProps<typeof Page>, 'title' | 'navigation' | 'description' | 'children'> {
  /** Creates a row. */
  readonly action?: ReactNode
  readonly query: UseQueryResult<unknown>
}

export interface ListScreenProps<Row>
  extends Omit<ListViewProps<Row>, 'empty'>,
    Omit<FrameProps, 'query' | 'children'> {
  /** The frame of the screens of an area. */
  readonly frame?: (props: FrameProps) => ReactNode
  readonly above?: ReactNode
  readonly below?: ReactNode
  readonly empty?: ReactNode
  /** What a list without anything says, with the action that creates the first row. */
  readonly nothing?: EmptyStateProps
}

export const ListScreen = <Row,>({
  title,
  navigation,
  description,
  frame: Frame = Page,
  action,
  above,
  below,
  nothing,
  empty = nothing && (
    <EmptyState {...nothing}>
      {action}
      {nothing.children}
    </EmptyState>
  ),
  ...view
}: ListScreenProps<Row>) => (
  <Frame
    title={title}
    action={view.list.isEmpty ? undefined : action}
    query={view.list.query}
    navigation={navigation}
    {...(description !== undefined && { description })}
  >
    {above}
    <ListView {...view} empty={empty} />
    {below}
  </Frame>
)

type ActionLinkProps = Target & Omit<ComponentProps<typeof ActionButton>, 'onClick'>

/** A button that leads to the screen of an action. */
export function ActionLink(props: ActionLinkProps) {
  const navigate = useNavigate()
  return <ActionButton {...props} onClick={() => void navigate(props)} />
}

interface NewRowsProps {
  readonly list: SteadyRows<Partial<PageOf<unknown>>>
}

/** Always in the page, so that screen readers announce a change and the list does not move. */
export const NewRows = ({ list: { newCount, hasChanged, show, page } }: NewRowsProps) => (
  <div role="status" className="new-rows">
    {hasChanged && (
      <button
        type="button"
        onClick={() => {
          show()
          scrollTo({ top: 0 })
        }}
      >
        {newCount === 0
          ? 'The list has changed: show it'
          : `${newCount}${newCount === page?.pagination?.per_page ? '+' : ''} new`}
      </button>
    )}
  </div>
)

interface NoMatchProps {
  readonly list: Pick<List<unknown>, 'isFiltered' | 'filter'>
  readonly noun: string
  readonly advice?: string | undefined
}

function NoMatch({ list: { isFiltered, filter }, noun, advice }: NoMatchProps) {
  const navigate = useNavigate()
  const showFirst = () => void navigate({ to: '.', search: ({ cursor: _, ...others }) => others })
  return (
    <EmptyState title={isFiltered ? `No ${noun} matches these filters` : 'There is nothing on this page'}>
      {isFiltered && advice !== undefined && <Text maw={640}>{advice}</Text>}
      <Button variant="default" onClick={isFiltered ? () => filter({}) : showFirst}>
        {isFiltered ? 'Remove the filters' : 'First page'}
      </Button>
    </EmptyState>
  )
}

declare module '@tanstack/react-router' {
  interface HistoryState {
    /** The cursors of the pages before; an empty one is the first page. */
    readonly before?: readonly string[]
  }
}

/** A list that is capped is counted no further. */
const MAX_COUNTED = 10_000

interface ListPagesProps {
  readonly list: Pick<List<unknown>, 'page' | 'isCapped'>
  readonly noun: string
}

/** The other filters in the URL are kept. */
function ListPages({ list: { page, isCapped }, noun }: ListPagesProps) {
  const navigate = useNavigate()
  const { cursor, ...search }: { readonly cursor?: string } = useSearch({ strict: false })
  const { before = [] } = useRouterState({ select: ({ location }) => location.state })
  const { total = 0, next_cursor: next } = page?.pagination ?? {}
  const isMore = isCapped && total >= MAX_COUNTED
  const go = (wanted: string | undefined, state: HistoryState) =>
    void navigate({ to: '.', search: { ...search, ...keep('cursor', wanted || undefined) }, state })
  return (
    <nav className="list-foot" aria-label="Pages">
      <span>
        {isMore && 'At least '}
        {formatCount(isMore ? MAX_COUNTED : total, noun)}
      </span>
      <Group gap="xs">
        {cursor !== undefined && (
          <Button variant="default" size="xs" onClick={() => go(before.at(-1), { before: before.slice(0, -1) })}>
            {before.length > 1 ? 'Previous' : 'First page'}
          </Button>
        )}
        {next !== undefined && (
          <Button variant="default" size="xs" onClick={() => go(next, { before: [...before, cursor ?? ''] })}>
            Next
          </Button>
        )}
      </Group>
    </nav>
  )
}
