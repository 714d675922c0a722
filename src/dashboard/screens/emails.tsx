/** @module The list of emails: newest first, with filters, live. */
import { Anchor, Badge, Button, Group, Text, VisuallyHidden } from '@mantine/core'
import { useWindowEvent } from '@mantine/hooks'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useEffect } from 'react'
import type { EmailSummary } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { read } from '../api/client.ts'
import { usePage } from '../api/data.ts'
import { refetch, useLiveEvents, useRefreshSoon } from '../api/live.tsx'
import { toSendCommand } from '../parts/commands.ts'
import { formatCount } from '../parts/format.ts'
import { SmallLink } from '../parts/links.tsx'
import { EmptyState, Page } from '../parts/page.tsx'
import { useLiveRows } from '../parts/rows.ts'
import { StatusBadge } from '../parts/status.tsx'
import { type Column, CursorPages, DataTable, LiveView } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { useStable } from '../parts/use-stable.ts'
import { useStreams } from './analytics/queries.ts'
import { useExampleDomain } from './domains/queries.ts'
import { FilterBar } from './emails/filter-bar.tsx'
import { FILTER_NAMES, toEmailQuery } from './emails/filters.ts'

const route = getRouteApi('/emails')

export default function EmailsScreen() {
  const { cursor, ...filters } = route.useSearch()
  const navigate = route.useNavigate()
  const values = { ...toEmailQuery(filters), cursor }
  const query = usePage(read.emails.list(values))
  const list = useLiveRows(query, JSON.stringify(values), ({ created_at: at }) => at)
  const refreshSoon = useRefreshSoon(() => refetch(query))
  useLiveEvents(({ email_id: id }) => id !== null && refreshSoon())
  useWindowEvent('visibilitychange', () => {
    if (document.visibilityState === 'visible') refreshSoon()
  })
  const hasFilters = FILTER_NAMES.some((name) => filters[name] !== undefined)
  const fieldErrors = toFieldErrors(query.error)
  return (
    <Page title="Emails">
      <FilterBar
        filters={useStable(filters)}
        errors={fieldErrors}
        onChange={(next) => void navigate({ search: next })}
      />
      <LiveView
        query={query}
        list={list}
        isNewest={!cursor}
        empty={cursor ? undefined : <Nothing hasFilters={hasFilters} onClear={() => void navigate({ search: {} })} />}
        isErrorShown={Object.keys(fieldErrors).length > 0}
      >
        {({ data, pagination }) => (
          <>
            <EmailTable rows={data} />
            <CursorPages next={pagination.next_cursor} summary={toSummary(pagination.total)} isByTime />
          </>
        )}
      </LiveView>
    </Page>
  )
}

const toFieldErrors = (error: unknown): Record<string, string> =>
  error instanceof TassisError && error.status === 422
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
  const domain = useExampleDomain()
  return (
    <EmptyState title="No email yet" command={toSendCommand(domain?.domain)}>
      <Text>
        Every email that you send appears here, with what happened to it. This command sends the first one; put in one
        of your API keys{domain ? '' : ' and your domain'}. From a domain that is neither verified nor below one that
        is, it is only captured.
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

function EmailTable({ rows }: { readonly rows: readonly EmailSummary[] }) {
  const { data: streams = [] } = useStreams().data ?? {}
  const slugs = new Map(streams.map(({ id, slug }) => [id, slug]))
  useFocusOfLastOpened()
  const columns: readonly Column<EmailSummary>[] = [
    { header: 'Recipient', width: '30%', cell: (row) => <Recipient row={row} /> },
    {
      header: 'Subject',
      // The mouse may use it; the keyboard has the link of the recipient.
      cell: ({ id, subject }) => (
        <SmallLink to="/emails/$id" params={{ id }} c="inherit" lineClamp={2} title={subject} tabIndex={-1}>
          <bdi>{subject || '(no subject)'}</bdi>
        </SmallLink>
      ),
    },
    { header: 'Status', width: '9rem', cell: ({ state }) => <StatusBadge status={state} /> },
    { header: 'Time', width: '9rem', cell: ({ created_at: at }) => <Time iso={at} /> },
    {
      header: 'Stream, tags',
      width: '16%',
      cell: ({ stream_id: id, tags }) => <Labels stream={id ? slugs.get(id) : undefined} tags={tags} />,
    },
  ]
  return <DataTable label="Emails" columns={columns} rows={rows} toKey={({ id }) => id} />
}

/** `to` joins the addresses; their names are not in it. */
const countRecipients = ({ to, cc, bcc }: EmailSummary): number =>
  (to === '' ? 0 : to.split(', ').length) + cc.length + bcc.length

function Recipient({ row }: { readonly row: EmailSummary }) {
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

const MAX_COUNTED = 10_000

const toSummary = (total: number): string =>
  total > MAX_COUNTED ? `More than ${formatCount(MAX_COUNTED, 'email')}` : formatCount(total, 'email')
