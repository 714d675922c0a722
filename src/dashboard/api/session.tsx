/** @module Who is signed in, and signing in again when the session ends: what was typed stays. */
import { Alert, Anchor, Button, Modal, PasswordInput, Stack, Text, TextInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { createContext, type FormEvent, type ReactNode, useContext, useEffect, useRef, useState } from 'react'
import type { SessionState } from '#features/people/team/model.ts'
import { ErrorState, LoadingState } from '../parts/page.tsx'
import { ApiError, get, listenForForbidden, listenForSignOut, rememberCsrfToken, request } from './client.ts'

const SessionContext = createContext<SessionState | undefined>(undefined)

export function useSession(): SessionState {
  const session = useContext(SessionContext)
  if (!session) throw new Error('no session')
  return session
}

const ROLES = ['viewer', 'developer', 'admin', 'owner']

/** Whether the role of the user includes that of `needed`; otherwise the reason why an action is not allowed. */
export function useAllowed(needed: 'developer' | 'admin' | 'owner'): string | undefined {
  const { role } = useSession()
  return ROLES.indexOf(role) >= ROLES.indexOf(needed)
    ? undefined
    : `Your role is ${role}; this needs the role ${needed}${needed === 'owner' ? '' : ' or above'}.`
}

const readSession = async (signal: AbortSignal): Promise<SessionState> => {
  const { data } = await get<{ data: SessionState }>('/v1/auth/session', {}, signal)
  rememberCsrfToken(data.csrf_token)
  return data
}

const ACCOUNT_CHANNEL = 'tassis-account'

/** Tells the other tabs, which share the session, that it acts in another account now. */
export function announceAccount(): void {
  const channel = new BroadcastChannel(ACCOUNT_CHANNEL)
  channel.postMessage('switched')
  channel.close()
}

/** Starts again at the Overview when the session acts in another account, whose data this page does not have. */
function useAccountSwitch(accountId: string | undefined): void {
  const queries = useQueryClient()
  const first = useRef(accountId)
  useEffect(() => {
    const refresh = () => void queries.invalidateQueries({ queryKey: ['session'] })
    listenForForbidden(refresh)
    const channel = new BroadcastChannel(ACCOUNT_CHANNEL)
    channel.onmessage = refresh
    return () => channel.close()
  }, [queries])
  useEffect(() => {
    first.current ??= accountId
    if (first.current !== accountId && accountId !== undefined) location.assign('/app')
  }, [accountId])
}

/** Shows its children to a signed-in user; leads others to the sign-in page. */
export function SessionProvider({ children }: { readonly children: ReactNode }) {
  const [hasEnded, setHasEnded] = useState(false)
  const queries = useQueryClient()
  const session = useQuery({ queryKey: ['session'], queryFn: ({ signal }) => readSession(signal), retry: false })
  const isSignedIn = session.data !== undefined
  useAccountSwitch(session.data?.account.id)
  useEffect(() => listenForSignOut(() => setHasEnded(true)), [])
  const isStranger = !isSignedIn && session.error instanceof ApiError && session.error.status === 401
  useEffect(() => {
    if (isStranger) location.replace(`/login?next=${encodeURIComponent(location.pathname + location.search)}`)
  }, [isStranger])
  if (session.data)
    return (
      <SessionContext value={session.data}>
        {children}
        <SignInAgain
          email={session.data.user.email}
          isOpen={hasEnded}
          onSignedIn={async (state) => {
            rememberCsrfToken(state.csrf_token)
            queries.setQueryData(['session'], state)
            setHasEnded(false)
            await queries.invalidateQueries()
          }}
        />
      </SessionContext>
    )
  if (session.isPending || isStranger) return <LoadingState />
  return <ErrorState error={session.error} onRetry={() => session.refetch()} />
}

interface SignInAgainProps {
  readonly email: string
  readonly isOpen: boolean
  onSignedIn(state: SessionState): Promise<void>
}

/** Asks for the password over the current screen, which stays as it is. */
function SignInAgain({ email, isOpen, onSignedIn }: SignInAgainProps) {
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')
  const [error, setError] = useState<string>()
  const [isSending, setIsSending] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setIsSending(true)
    try {
      const body = { email, password, ...(code && { code }) }
      const { data } = await request<{ data: SessionState }>('POST', '/v1/auth/login', { body })
      setPassword('')
      setCode('')
      setError(undefined)
      await onSignedIn(data)
    } catch (cause) {
      setError(cause instanceof Error ? cause.message : String(cause))
    } finally {
      setIsSending(false)
    }
  }
  return (
    <Modal
      opened={isOpen}
      onClose={() => undefined}
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
      title="Sign in again"
    >
      <form onSubmit={submit}>
        <Stack>
          <Text>Your session has ended. What you typed on this page is kept.</Text>
          {error && <Alert color="red">{error}</Alert>}
          <TextInput label="Email address" value={email} readOnly autoComplete="username" />
          <PasswordInput
            label="Password"
            value={password}
            onChange={(event) => setPassword(event.currentTarget.value)}
            required
            autoComplete="current-password"
            data-autofocus
          />
          <TextInput
            label="Code"
            description="Only if you use an authenticator app."
            value={code}
            onChange={(event) => setCode(event.currentTarget.value)}
            autoComplete="one-time-code"
          />
          <Button type="submit" loading={isSending}>
            Sign in
          </Button>
          <Anchor href="/login">Sign in as somebody else</Anchor>
        </Stack>
      </form>
    </Modal>
  )
}
