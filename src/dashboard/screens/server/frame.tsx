/** @module The frame of the operator's screens: their navigation, who may see them, and when they were read. */
import { Button, Group, Stack, Text } from '@mantine/core'
import { type UseQueryResult, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useRef } from 'react'
import { TassisError } from '#client/client.ts'
import { api } from '../../api/client.ts'
import { type PageOf, readAgain } from '../../api/data.ts'
import { SESSION, useSession } from '../../api/session.tsx'
import { Authenticator } from '../../parts/authenticator.tsx'
import { FormError } from '../../parts/form.tsx'
import { quote } from '../../parts/format.ts'
import { AreaNavigation, EmptyState, Page, QueryView } from '../../parts/page.tsx'
import { type Column, DataTable, Pages } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { useSteadyRows } from './steady-rows.ts'

const LINKS = [
  { label: 'Health', to: '/server' },
  { label: 'Queue', to: '/server/queue' },
  { label: 'Providers', to: '/server/providers' },
  { label: 'Received mail', to: '/server/received' },
  { label: 'Disk', to: '/server/disk' },
  { label: 'Accounts', to: '/server/accounts' },
  { label: 'Findings', to: '/server/findings' },
  { label: 'Complaints', to: '/server/complaints' },
  { label: 'Domain reports', to: '/server/reports' },
  { label: 'Postmaster mail', to: '/server/mail' },
  { label: 'Settings', to: '/server/settings' },
]

interface ServerPageProps<T> {
  readonly title: string
  readonly action?: ReactNode
  readonly query: UseQueryResult<T>
  /** Whether the data are read again while they are visible; default: they are. */
  readonly isRefreshed?: boolean
  /** Above the data, also while there is none. */
  readonly filters?: ReactNode
  readonly children: (data: T) => ReactNode
}

/** A screen for operators only; others see what they lack. */
export function ServerPage<T>({ title, action, query, isRefreshed = true, filters, children }: ServerPageProps<T>) {
  const refusal = useRefusal(query)
  return (
    <Page title={title} action={refusal ? undefined : action}>
      {refusal ?? (
        <>
          <AreaNavigation label="Server" links={LINKS} />
          {isRefreshed && <ReadAt query={query} />}
          {filters}
          <QueryView query={query}>{children}</QueryView>
        </>
      )}
    </Page>
  )
}

/** When the data were read. After a failed refresh the data before stay. */
function ReadAt<T>({ query }: { readonly query: UseQueryResult<T> }) {
  const { dataUpdatedAt, data, error, isFetching, refetch } = query
  if (data === undefined) return null
  return (
    <Stack gap="xs">
      <Group gap="xs">
        <Text size="sm" c="dimmed">
          Read at <Time iso={new Date(dataUpdatedAt).toISOString()} />, again every 15 seconds.
        </Text>
        <Button variant="default" size="compact-xs" onClick={() => refetch()} disabled={isFetching}>
          Read again
        </Button>
      </Group>
      {error && (
        <div role="status">
          <Text size="sm" fw={600}>
            This is not up to date.
          </Text>
          <FormError error={error} />
        </div>
      )}
    </Stack>
  )
}

/** What an operator still needs before the views are shown; undefined: nothing. */
function useRefusal({ error, data }: UseQueryResult<unknown>): ReactNode | undefined {
  const { user } = useSession()
  const queries = useQueryClient()
  // While the view is read again there is no error for a moment: an open dialog must not close.
  const last = useRef<string>(undefined)
  if (error instanceof TassisError && error.status === 403) last.current = error.code
  else if (error || data !== undefined) last.current = undefined
  const code = last.current
  const hasLostRight = code === 'operator_required' && user.is_operator
  useEffect(() => {
    // The navigation no longer offers these screens.
    if (hasLostRight) readAgain(queries, SESSION)
  }, [hasLostRight, queries])
  if (!user.is_operator || code === 'operator_required') return <NoOperator email={user.email} />
  if (code === 'authenticator_required') return <NeedsAuthenticator />
  if (code === 'second_factor_required') return <NeedsCode />
  return undefined
}

const NoOperator = ({ email }: { readonly email: string }) => (
  <EmptyState title="This is for operators of the service" command={`tassis users operator ${quote(email)}`}>
    <Text maw={640}>
      An operator sees the state of the whole service and the accounts on it. Whoever may run commands on the server can
      make you one with this command.
    </Text>
  </EmptyState>
)

function NeedsAuthenticator() {
  const queries = useQueryClient()
  const { user } = useSession()
  const isSetUp = user.totp_enabled
  useEffect(() => {
    if (isSetUp) readAgain(queries, 'operator')
  }, [isSetUp, queries])
  return (
    <EmptyState title="Set up your authenticator app first">
      <Text maw={640}>
        Operators see the mail and the accounts of everybody here, so a password alone is not enough.
      </Text>
      <Authenticator />
    </EmptyState>
  )
}

function NeedsCode() {
  const signInAgain = async () => {
    const next = encodeURIComponent(location.pathname + location.search)
    await api.auth.logout()
    location.assign(`/login?next=${next}`)
  }
  return (
    <EmptyState title="Sign in with a code of your authenticator app">
      <Text maw={640}>You signed in to this browser before you had set the app up, or without a code.</Text>
      <Button onClick={signInAgain}>Sign out, and sign in again</Button>
    </EmptyState>
  )
}

interface SteadyTableProps<Row> {
  /** Names the list for screen readers. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  toKey(row: Row): string
  readonly listKey: string
  readonly query: Pick<UseQueryResult, 'isPlaceholderData' | 'dataUpdatedAt'>
}

/** A table that is refreshed without jumping. */
export function SteadyTable<Row>({ label, columns, rows, toKey, listKey, query }: SteadyTableProps<Row>) {
  const { isPlaceholderData: isPlaceholder, dataUpdatedAt } = query
  const steady = useSteadyRows(rows, toKey, listKey, isPlaceholder, dataUpdatedAt)
  return (
    <Stack gap="xs" style={{ opacity: isPlaceholder ? 0.6 : 1 }}>
      {/* Always in the page, so that screen readers announce a change and the list does not move. */}
      <div role="status" style={{ minHeight: '1.875rem' }}>
        {steady.hasChanged && (
          <Button variant="default" size="xs" fullWidth onClick={steady.show}>
            {steady.newCount > 0 ? `${steady.newCount} new` : 'The list has changed: show it'}
          </Button>
        )}
      </div>
      <DataTable label={label} columns={columns} rows={steady.rows} isWide toKey={toKey} />
    </Stack>
  )
}

interface ServerListProps<Row> extends Omit<ServerPageProps<PageOf<Row>>, 'children'> {
  /** Names the list for screen readers. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  toKey(row: Row): string
  /** Path of the screen, and the query of its URL. */
  readonly path: string
  readonly search: { readonly page?: number }
  /** Shown instead of the list when nothing matches. */
  readonly empty?: ReactNode
  readonly summary?: ReactNode
}

export function ServerList<Row>(props: ServerListProps<Row>) {
  const { label, columns, toKey, path, search, empty, summary, ...page } = props
  return (
    <ServerPage {...page}>
      {({ data, pagination }) =>
        pagination.total === 0 && empty !== undefined ? (
          empty
        ) : (
          <>
            <SteadyTable
              label={label}
              columns={columns}
              rows={data}
              toKey={toKey}
              listKey={JSON.stringify(search)}
              query={page.query}
            />
            {summary}
            <Pages path={path} page={search.page ?? 1} totalPages={pagination.total_pages} />
          </>
        )
      }
    </ServerPage>
  )
}
