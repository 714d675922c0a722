/** @module Who is signed in, and signing in again when the session ends: what was typed stays. */
import { Anchor, Button, Modal, PasswordInput, Text, TextInput } from '@mantine/core'
import { useWindowEvent } from '@mantine/hooks'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useContext, useEffect, useRef, useState } from 'react'
import { TassisError } from '#client/client.ts'
import type { Session } from '#client/operator-api.ts'
import { bindText, Form, FormError } from '../parts/form.tsx'
import { ErrorState, LoadingState } from '../parts/page.tsx'
import { api, listenForForbidden, listenForSignOut, read, rememberCsrfToken } from './client.ts'
import { readAgain, SessionContext, useChange } from './data.ts'

export function useSession(): Session {
  const session = useContext(SessionContext)
  if (!session) throw new Error('no session')
  return session
}

/** Each includes those before it. */
const ROLES: readonly string[] = ['viewer', 'developer', 'admin', 'owner']
/** What an action needs: `viewer`, any role; `support`, that one, or developer and above. */
export type Role = 'viewer' | 'developer' | 'admin' | 'owner' | 'support'

/** Whether the role of the user includes that of `needed`; otherwise the reason why an action is not allowed. */
export function useAllowed(needed: Role): string | undefined {
  const { role } = useSession()
  const least = needed === 'support' ? 'developer' : needed
  if (needed === 'viewer' || role === needed || ROLES.indexOf(role) >= ROLES.indexOf(least)) return undefined
  const others = needed === 'support' ? ', or developer or above' : needed === 'owner' ? '' : ' or above'
  return `Your role is ${role}; this needs the role ${needed}${others}.`
}

/** By which the session is kept, to read it again. */
export const SESSION = ['auth', 'getSession'] as const

async function readSession(context: { readonly signal: AbortSignal }): Promise<{ readonly data: Session }> {
  const session = await read.auth.getSession().queryFn(context)
  rememberCsrfToken(session.data.csrf_token)
  return session
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
    const refresh = () => readAgain(queries, SESSION)
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
  const session = useQuery({ queryKey: SESSION, queryFn: readSession, retry: false })
  const state = session.data?.data
  useAccountSwitch(state?.account.id)
  useEffect(() => listenForSignOut(() => setHasEnded(true)), [])
  const isStranger = !state && session.error instanceof TassisError && session.error.status === 401
  useEffect(() => {
    if (isStranger) location.replace(`/login?next=${encodeURIComponent(location.pathname + location.search)}`)
  }, [isStranger])
  if (state)
    return (
      <SessionContext value={state}>
        {children}
        <SignInAgain
          email={state.user.email}
          hasPassword={state.user.has_password && state.local_sign_in}
          isOpen={hasEnded}
          onSignedIn={async (renewed) => {
            rememberCsrfToken(renewed.data.csrf_token)
            queries.setQueryData(SESSION, renewed)
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
  readonly hasPassword: boolean
  readonly isOpen: boolean
  onSignedIn(renewed: { readonly data: Session }): Promise<void>
}

/** Asks for the password over the current screen, which stays as it is. */
function SignInAgain({ email, hasPassword, isOpen, onSignedIn }: SignInAgainProps) {
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')
  useWindowEvent('focus', async () => {
    if (!isOpen) return
    // Signed in in another tab, which has the same session.
    const renewed = await api.auth.getSession().catch(() => undefined)
    if (renewed?.data.user.email === email) await onSignedIn(renewed)
    else if (renewed) location.assign('/app')
  })
  const signIn = useChange(async () => {
    const renewed = await api.auth.login({ email, password, ...(code && { code }) })
    setPassword('')
    setCode('')
    await onSignedIn(renewed)
  })
  return (
    <Modal
      opened={isOpen}
      onClose={() => undefined}
      withCloseButton={false}
      closeOnClickOutside={false}
      closeOnEscape={false}
      title="Sign in again"
    >
      <Form onSubmit={() => signIn.mutate()} noValidate={false}>
        <Text>Your session has ended. What you typed on this page is kept.</Text>
        <FormError error={signIn.error} />
        <TextInput label="Email address" value={email} readOnly autoComplete="username" />
        {hasPassword && (
          <>
            <PasswordInput
              label="Password"
              {...bindText(password, setPassword)}
              required
              autoComplete="current-password"
              data-autofocus
            />
            <TextInput
              label="Code"
              description="Only if you use an authenticator app."
              {...bindText(code, setCode)}
              autoComplete="one-time-code"
            />
            <Button type="submit" loading={signIn.isPending}>
              Sign in
            </Button>
          </>
        )}
        <Anchor href="/login" target="_blank">
          {hasPassword ? 'Sign in in another way' : 'Sign in in a new tab, then come back'}
        </Anchor>
        <Anchor href="/login">Sign in as somebody else</Anchor>
      </Form>
    </Modal>
  )
}
