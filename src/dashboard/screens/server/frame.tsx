/**
 * @module The frame of the operator's screens: their navigation, who may see them, and when they were read; and what
 * several of them show and read.
 */
import { type UseQueryResult, useQueryClient } from '@tanstack/react-query'
import { type ComponentProps, type ReactNode, useEffect, useRef } from 'react'
import { TassisError } from '#client/client.ts'
import { api, type Read } from '../../api/client.ts'
import { readAgain, useData } from '../../api/data.ts'
import { SESSION, useSession } from '../../api/session.tsx'
import { Authenticator } from '../../parts/authenticator.tsx'
import { ActionButton } from '../../parts/buttons.tsx'
import type { Filters, Target } from '../../parts/filters.ts'
import { quote } from '../../parts/format.ts'
import { NameLink, TextLink } from '../../parts/links.tsx'
import { type ListOptions, ListScreen, type ListScreenProps, useList } from '../../parts/list.tsx'
import { AreaNavigation, EmptyState, ErrorState, Page, QueryView } from '../../parts/page.tsx'
import { usePasswordAgain } from '../../parts/password-again.tsx'
import { type Column, column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'

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
] as const

const REFRESH_MS = 15_000

/** A refusal stays until something is done about it. */
export const refetchInterval = ({ state }: { readonly state: { readonly error: Error | null } }): number | false =>
  state.error instanceof TassisError && state.error.status === 403 ? false : REFRESH_MS

/** Options of a list that is read again while it is visible. */
export const REFRESHED = { isSteady: true, refetchInterval } as const

/** One thing, of which nothing of another is shown while it is loaded. */
export const useOne = <T,>(one: Read<PromiseLike<{ readonly data: T }>>) => useData(one, { refetchInterval })

interface ServerFrameProps extends Omit<ComponentProps<typeof Page>, 'back' | 'children'> {
  readonly query: UseQueryResult<unknown>
  /** The list that this screen has one of; it leads back there instead of to the other screens. */
  readonly back?: { readonly label: string; readonly target: Target }
  readonly children: ReactNode
}

/** A screen for operators only; others see what they lack. */
export function ServerFrame({ query, back, action, status, children, ...page }: ServerFrameProps) {
  const refusal = useRefusal(query)
  return (
    <Page
      {...page}
      {...(back && { back })}
      {...(!refusal && {
        action,
        status: status ?? (!back && <ReadAt query={query} />),
        navigation: !back && <AreaNavigation label="Server" links={LINKS} />,
      })}
    >
      {refusal ?? children}
    </Page>
  )
}

interface ServerPageProps<T> extends Omit<ServerFrameProps, 'query' | 'children'> {
  readonly query: UseQueryResult<T>
  /** Above the data, also while there is none. */
  readonly above?: ReactNode
  readonly children: (data: T) => ReactNode
}

export const ServerPage = <T,>({ above, children, ...frame }: ServerPageProps<T>) => (
  <ServerFrame {...frame}>
    {above}
    {frame.query.data !== undefined && frame.query.error && (
      <ErrorState error={frame.query.error} onRetry={() => frame.query.refetch()} />
    )}
    <QueryView query={frame.query}>{children}</QueryView>
  </ServerFrame>
)

interface ServerListProps<Row> extends Omit<ListScreenProps<Row>, 'frame' | 'list' | 'isWide'> {
  readonly read: ListOptions<Row>['read']
  readonly filters: Filters
}

/** A screen of a list and nothing else. */
export function ServerList<Row extends object>({ read, filters, ...screen }: ServerListProps<Row>) {
  const list = useList({ read, filters, ...REFRESHED })
  return <ListScreen frame={ServerFrame} list={list} isWide {...screen} />
}

/** The column of lists of received messages with the time at which each came. */
export const RECEIVED: Column<{ readonly received_at: string }> = column(
  'Received',
  { width: '8.5rem', isNumeric: true, phone: 'aside' },
  ({ received_at: at }) => <Time iso={at} />,
)

/** All is read again every 15 seconds. */
const ReadAt = ({ query: { dataUpdatedAt, data } }: { readonly query: UseQueryResult<unknown> }) =>
  data === undefined ? null : (
    <span className="live">
      as of <Time iso={new Date(dataUpdatedAt).toISOString()} hasSeconds />
    </span>
  )

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
  <EmptyState
    title="This is for operators of the service"
    text="Operators see the whole service and its accounts. Somebody with access to the server can make you one:"
    command={`tassis users operator ${quote(email)}`}
  />
)

function NeedsAuthenticator() {
  const queries = useQueryClient()
  const { user } = useSession()
  const isSetUp = user.totp_enabled || user.passkeys > 0
  useEffect(() => {
    if (isSetUp) readAgain(queries, 'operator')
  }, [isSetUp, queries])
  return (
    <EmptyState
      title="Set up your authenticator app first"
      text="Operators see mail and accounts of everybody here: a password alone is not enough. A passkey does as well: add one in Settings, Your sign-in."
    >
      <Authenticator />
    </EmptyState>
  )
}

function NeedsCode() {
  const queries = useQueryClient()
  const again = usePasswordAgain()
  // The request is refused, too, so that what is missing is asked for.
  const confirm = () =>
    void again(() => api.operator.getHealth()).then(
      () => readAgain(queries, 'operator'),
      () => undefined,
    )
  return (
    <EmptyState
      title="Confirm that it is you"
      text="You signed in without a code of your authenticator app, and without a passkey."
    >
      <ActionButton onClick={confirm}>Confirm</ActionButton>
    </EmptyState>
  )
}

interface AccountLinkProps {
  readonly id: string | null
  readonly name: string | null
  /** Whether its row is the link of something else. */
  readonly isPlain?: boolean
}

export const AccountLink = ({ id, name, isPlain = false }: AccountLinkProps) =>
  id === null ? (
    <span>{name ?? 'A deleted account'}</span>
  ) : isPlain ? (
    <TextLink to="/server/accounts/$id" params={{ id }} name={<bdi>{name || '(no name)'}</bdi>} />
  ) : (
    <NameLink to="/server/accounts/$id" params={{ id }} name={name || '(no name)'} />
  )
