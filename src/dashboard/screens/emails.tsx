/** @module The list of emails: newest first, with filters, live. */
import { Anchor, Badge, Button, Group, Stack, Text, VisuallyHidden } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useRouterState } from '@tanstack/react-router'
import { useEffect, useMemo } from 'react'
import type { EmailRow } from '#features/sending/emails/model.ts'
import type { StreamRecord } from '#features/setup/streams/model.ts'
import { ApiError, get, type PageOf } from '../api/client.ts'
import { toSendCommand } from '../api/commands.ts'
import { useDomains } from '../api/domains.ts'
import { type Column, DataTable } from '../parts/data-table.tsx'
import { NewRows } from '../parts/new-rows.tsx'
import { Page } from '../parts/page.tsx'
import { EmptyState, ErrorState, LoadingState } from '../parts/states.tsx'
import { StatusBadge } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { FilterBar } from './emails/filter-bar.tsx'
import { type EmailFilters, FILTER_NAMES, toEmailQuery } from './emails/filters.ts'
import { countRecipients, useLiveList } from './emails/live-list.ts'
import { toShownStatus } from './emails/shown-status.ts'

const route = getRouteApi('/emails')

/** What the location keeps beside its URL: the cursors of the newer pages; an empty one is the first page. */
interface ListState {
  readonly newer?: readonly string[]
}

export function EmailsScreen() {
  const { cursor, ...filters } = route.useSearch()
  const navigate = route.useNavigate()
  const { newer = [] } = useRouterState({ select: ({ location }) => location.state as ListState })
  const list = useLiveList({ ...toEmailQuery(filters), cursor })
  const { query, page } = list
  const hasFilters = FILTER_NAMES.some((name) => filters[name] !== undefined)
  const fieldErrors = toFieldErrors(query.error)
  const goTo = (next: string | undefined, state: ListState) =>
    navigate({ search: { ...filters, ...(next && { cursor: next }) }, state: state as object })
  return (
    <Page title="Emails">
      <FilterBar
        filters={useStable(filters)}
        errors={fieldErrors}
        onChange={(next) => void navigate({ search: next })}
      />
      {query.error && Object.keys(fieldErrors).length === 0 && (
        <ErrorState error={query.error} onRetry={() => query.refetch()} />
      )}
      {!page ? (
        !query.error && <LoadingState />
      ) : page.data.length === 0 && !cursor ? (
        <Nothing hasFilters={hasFilters} onClear={() => void navigate({ search: {} })} />
      ) : (
        <Stack gap="xs" style={{ opacity: query.isPlaceholderData ? 0.6 : 1 }}>
          <NewRows count={cursor ? 0 : list.newCount} hasMore={list.hasMoreNew} onShow={list.showNew} />
          <EmailTable rows={page.data} />
          <Pages
            page={page}
            isFirst={!cursor}
            onOlder={(next) => void goTo(next, { newer: [...newer, cursor ?? ''] })}
            onNewer={() => void goTo(newer.at(-1) || undefined, { newer: newer.slice(0, -1) })}
            onNewest={() => void goTo(undefined, {})}
            hasNewer={newer.length > 0}
          />
        </Stack>
      )}
    </Page>
  )
}

/** The same object while its values are the same. */
function useStable(filters: EmailFilters): EmailFilters {
  const key = JSON.stringify(filters)
  return useMemo(() => JSON.parse(key) as EmailFilters, [key])
}

/** The problems of a 422, by filter. */
const toFieldErrors = (error: unknown): Record<string, string> =>
  error instanceof ApiError && error.status === 422
    ? Object.fromEntries(error.details.flatMap(({ field, message }) => (field ? [[field, message]] : [])))
    : {}

const Nothing = ({ hasFilters, onClear }: { readonly hasFilters: boolean; onClear(): void }) =>
  hasFilters ? (
    <EmptyState title="No email matches these filters">
      <Text>
        A recipient or sender is a whole address, or @example.com for all of a domain; a subject is searched by whole
        words.
      </Text>
      <Button variant="default" onClick={onClear}>
        Remove the filters
      </Button>
    </EmptyState>
  ) : (
    <NoEmailYet />
  )

function NoEmailYet() {
  const domains = useDomains(1)
  const domain = domains.data?.data.find(({ status }) => status === 'verified')
  return (
    <EmptyState title="No email yet" command={toSendCommand(domain?.domain)}>
      <Text>
        Every email that you send appears here, with what happened to it. This command sends the first one; put in one
        of your API keys{domain ? '' : ' and your domain'}. From a domain that is not verified it is only captured.
      </Text>
    </EmptyState>
  )
}

/** The email opened last: back in the list, its row has the focus, so that `j` and `k` continue there. */
let lastOpenedId: string | undefined

function useFocusOfLastOpened(): void {
  useEffect(() => {
    if (lastOpenedId === undefined) return
    document.querySelector<HTMLElement>(`[data-row] a[href$="/emails/${CSS.escape(lastOpenedId)}"]`)?.focus()
    lastOpenedId = undefined
  }, [])
}

function EmailTable({ rows }: { readonly rows: readonly EmailRow[] }) {
  const streams = useStreams()
  useFocusOfLastOpened()
  const columns: readonly Column<EmailRow>[] = [
    { header: 'Recipient', width: '30%', cell: (row) => <Recipient row={row} /> },
    {
      header: 'Subject',
      // The mouse may use it; the keyboard has the link of the recipient.
      cell: ({ id, subject }) => (
        <Anchor
          component={Link}
          to="/emails/$id"
          params={{ id } as never}
          size="sm"
          c="inherit"
          lineClamp={2}
          title={subject}
          tabIndex={-1}
        >
          <bdi>{subject || '(no subject)'}</bdi>
        </Anchor>
      ),
    },
    { header: 'Status', width: '9rem', cell: (row) => <StatusBadge status={toShownStatus(row)} /> },
    { header: 'Time', width: '9rem', cell: ({ created_at: at }) => <Time iso={at} /> },
    {
      header: 'Stream, tags',
      width: '16%',
      cell: ({ stream_id: id, tags }) => <Labels stream={id ? streams.get(id) : undefined} tags={tags} />,
    },
  ]
  return <DataTable label="Emails" columns={columns} rows={rows} toKey={({ id }) => id} />
}

function Recipient({ row }: { readonly row: EmailRow }) {
  const more = countRecipients(row) - 1
  return (
    <Anchor
      component={Link}
      to="/emails/$id"
      params={{ id: row.id } as never}
      size="sm"
      title={row.to}
      onClick={() => {
        lastOpenedId = row.id
      }}
    >
      <bdi>{row.to_address || '(no recipient)'}</bdi>
      {more > 0 && (
        <>
          {' '}
          <span aria-hidden="true">+{more}</span>
          <VisuallyHidden>and {more} more</VisuallyHidden>
        </>
      )}
    </Anchor>
  )
}

const Labels = ({ stream, tags }: { readonly stream: string | undefined; readonly tags: readonly string[] }) => (
  <Group gap={4}>
    {stream && <Text size="sm">{stream}</Text>}
    {tags.map((tag) => (
      <Badge key={tag} variant="default" size="sm" tt="none" fw={500} maw="100%" title={tag}>
        {tag}
      </Badge>
    ))}
    {!stream && tags.length === 0 && '–'}
  </Group>
)

/** Slugs of the streams by id. */
function useStreams(): ReadonlyMap<string, string> {
  const { data } = useQuery({
    queryKey: ['streams'],
    queryFn: ({ signal }) => get<{ data: StreamRecord[] }>('/v1/streams', { per_page: 100 }, signal),
    staleTime: 300_000,
  })
  return useMemo(() => new Map(data?.data.map(({ id, slug }) => [id, slug])), [data])
}

interface PagesProps {
  readonly page: PageOf<EmailRow>
  readonly isFirst: boolean
  readonly hasNewer: boolean
  onOlder(cursor: string): void
  onNewer(): void
  onNewest(): void
}

function Pages({ page, isFirst, hasNewer, onOlder, onNewer, onNewest }: PagesProps) {
  const { next_cursor: next, total } = page.pagination
  if (isFirst && next === undefined) return null
  return (
    <Group justify="space-between" component="nav" aria-label="Pages">
      <Text size="sm" c="dimmed">
        {total > 10_000 ? 'More than 10,000' : total.toLocaleString()} emails
      </Text>
      <Group gap="xs">
        {!isFirst && !hasNewer && (
          <Button variant="default" size="xs" onClick={onNewest}>
            Newest
          </Button>
        )}
        {!isFirst && hasNewer && (
          <Button variant="default" size="xs" onClick={onNewer}>
            Newer
          </Button>
        )}
        {next !== undefined && (
          <Button variant="default" size="xs" onClick={() => onOlder(next)}>
            Older
          </Button>
        )}
      </Group>
    </Group>
  )
}
