/**
 * @module Asks for the password again, or for a second factor, when `/v1` requires it: the request is repeated
 * afterwards, so screens need not know when that is.
 */
import { Anchor, Stack, Text, TextInput } from '@mantine/core'
import { createContext, type ReactNode, useCallback, useContext, useRef, useState } from 'react'
import { TassisError } from '#client/client.ts'
import { api } from '../api/client.ts'
import { useSession } from '../api/session.tsx'
import { RunButton } from './buttons.tsx'
import { ConfirmDialog } from './dialog.tsx'
import { signWithPasskey } from './passkey.ts'

/** The codes of a 403 after which the user can prove more. */
const NEEDS = ['password_required', 'second_factor_required'] as const
type Need = (typeof NEEDS)[number]

/** Resolves with whether the user proved it. */
type Ask = (need: Need) => Promise<boolean>

const AskContext = createContext<Ask>(() => Promise.resolve(false))

/**
 * Returns a function that runs a request. When the response is 403 `password_required` or `second_factor_required`, it
 * asks for that and repeats the request. Throws the error of the request, and one with the same code when the user did
 * not prove it.
 */
export function usePasswordAgain(): <T>(work: () => PromiseLike<T>) => Promise<T> {
  const ask = useContext(AskContext)
  return useCallback(
    async (work) => {
      const asked = new Set<string>()
      for (;;) {
        try {
          return await work()
        } catch (error) {
          const need = error instanceof TassisError && NEEDS.find((code) => code === error.code && !asked.has(code))
          if (!need) throw error
          asked.add(need)
          if (await ask(need)) continue
          const message = 'Nothing was done, because you did not confirm that it is you.'
          throw new TassisError(403, { code: need, message })
        }
      }
    },
    [ask],
  )
}

export const PASSWORD = [
  { name: 'password', label: 'Password', kind: 'password', autoComplete: 'current-password', isRequired: true },
] as const

/** What asks for the second factor. */
export const CODE = [
  {
    name: 'code',
    label: 'Code',
    hint: 'Six digits of the app, or a recovery code.',
    autoComplete: 'one-time-code',
    isRequired: true,
  },
] as const

/** Requests that wait at the same time share one dialog. */
export function PasswordAgainProvider({ children }: { readonly children: ReactNode }) {
  const { user, sign_on_name: signOnName } = useSession()
  const [need, setNeed] = useState<Need>()
  const isPassword = need === 'password_required'
  /** Else a passkey is asked for. */
  const isTyped = isPassword ? user.has_password : user.totp_enabled
  const waiting = useRef<((isProven: boolean) => void)[]>([])
  const ask = useCallback<Ask>(
    (asked) =>
      new Promise((resolve) => {
        waiting.current.push(resolve)
        setNeed(asked)
      }),
    [],
  )
  const close = (isProven: boolean) => {
    setNeed(undefined)
    for (const resolve of waiting.current.splice(0)) resolve(isProven)
  }
  return (
    <AskContext value={ask}>
      {children}
      {need && (
        <ConfirmDialog
          title={isPassword && isTyped ? 'Enter your password' : 'Confirm that it is you'}
          confirm={isTyped ? 'Continue' : 'Use a passkey'}
          isIncomplete={!isTyped && user.passkeys === 0}
          fields={isTyped ? (isPassword ? PASSWORD : CODE) : []}
          run={(body: { readonly password: string; readonly code: string }): PromiseLike<unknown> =>
            !isTyped
              ? confirmByPasskey()
              : isPassword
                ? api.auth.confirmSessionPassword(body)
                : api.auth.confirmSessionCode(body)
          }
          onDone={() => close(true)}
          onClose={() => close(false)}
          footer={() =>
            isTyped &&
            user.passkeys > 0 && (
              <Stack gap="xs" align="flex-start">
                <RunButton label="Use a passkey" variant="default" run={confirmByPasskey} onDone={() => close(true)} />
              </Stack>
            )
          }
        >
          <Text>
            {isPassword
              ? 'You did more than ten minutes ago. It protects your secrets on a computer that was left open.'
              : 'You signed in without a code of your authenticator app, and without a passkey.'}
          </Text>
          {isPassword && isTyped && (
            <TextInput label="Email address" value={user.email} readOnly autoComplete="username" />
          )}
          {isPassword && !isTyped && signOnName !== null && (
            <Text>
              <Anchor href={`/login/single-sign-on?fresh=1&next=${encodeURIComponent(location.pathname)}`}>
                Sign in again with {signOnName}
              </Anchor>
              , then repeat this. What you typed on this page is lost.
            </Text>
          )}
        </ConfirmDialog>
      )}
    </AskContext>
  )
}

/** As good as the password and a code. */
export async function confirmByPasskey(): Promise<void> {
  const { data } = await api.auth.createPasskeyChallenge()
  await api.auth.confirmSessionPasskey({ credential: await signWithPasskey(data.options) })
}
