/** @module The frame of the operator's screens: their navigation, who may see them, and when they were read. */
import { Button, Group, Text } from '@mantine/core'
import { type UseQueryResult, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useRef } from 'react'
import { TassisError } from '#client/client.ts'
import { api } from '../../api/client.ts'
import { readAgain } from '../../api/data.ts'
import { SESSION, useSession } from '../../api/session.tsx'
import { Authenticator } from '../../parts/authenticator.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { quote } from '../../parts/format.ts'
import { AreaNavigation, EmptyState, ErrorState, Page, QueryView } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { UsePasskey } from '../../parts/use-passkey.tsx'

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

interface ServerFrameProps {
  readonly title: string
  readonly action?: ReactNode
  readonly query: UseQueryResult<unknown>
  /** Whether the data are read again while they are visible; default: they are. */
  readonly isRefreshed?: boolean
  readonly children: ReactNode
}

/** A screen for operators only; others see what they lack. */
export function ServerFrame({ title, action, query, isRefreshed = true, children }: ServerFrameProps) {
  const refusal = useRefusal(query)
  return (
    <Page title={title} action={refusal ? undefined : action}>
      {refusal ?? (
        <>
          <AreaNavigation label="Server" links={LINKS} />
          {isRefreshed && <ReadAt query={query} />}
          {children}
        </>
      )}
    </Page>
  )
}

interface ServerPageProps<T> extends Omit<ServerFrameProps, 'children'> {
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

function ReadAt({ query: { dataUpdatedAt, data, isFetching, refetch } }: { readonly query: UseQueryResult<unknown> }) {
  if (data === undefined) return null
  return (
    <Group gap="xs">
      <Text size="sm" c="dimmed">
        Read at <Time iso={new Date(dataUpdatedAt).toISOString()} />, again every 15 seconds.
      </Text>
      <Button variant="default" size="compact-xs" onClick={() => refetch()} disabled={isFetching}>
        Read again
      </Button>
    </Group>
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
  <EmptyState
    title="This is for operators of the service"
    text="An operator sees the state of the whole service and the accounts on it. Whoever may run commands on the server can make you one with this command."
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
      text="Operators see the mail and the accounts of everybody here, so a password alone is not enough. A passkey does as well: add one in Settings, Your sign-in."
    >
      <Authenticator />
    </EmptyState>
  )
}

function NeedsCode() {
  const { user } = useSession()
  const queries = useQueryClient()
  const refresh = () => readAgain(queries, 'operator')
  return (
    <EmptyState
      title="Confirm that it is you"
      text="You signed in without a code of your authenticator app, and without a passkey."
    >
      {user.totp_enabled && (
        <ConfirmButton
          label="Enter a code"
          variant="filled"
          title="Enter a code"
          confirm="Continue"
          isDangerous={false}
          fields={CODE}
          run={api.auth.confirmSessionCode}
          onDone={refresh}
        />
      )}
      {user.passkeys > 0 && <UsePasskey onDone={refresh} />}
    </EmptyState>
  )
}

const CODE = [
  {
    name: 'code',
    label: 'Code',
    hint: 'Six digits of the app, or a recovery code.',
    autoComplete: 'one-time-code',
    isRequired: true,
  },
] as const
