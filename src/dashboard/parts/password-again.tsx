/**
 * @module Asks for the password again when `/v1` requires it: the request is repeated afterwards, so screens need not
 * know when that is.
 */
import { Anchor, Text, TextInput } from '@mantine/core'
import { createContext, type ReactNode, useCallback, useContext, useRef, useState } from 'react'
import { TassisError } from '#client/client.ts'
import { api } from '../api/client.ts'
import { useSession } from '../api/session.tsx'
import { ConfirmDialog } from './dialog.tsx'
import { confirmByPasskey, UsePasskey } from './use-passkey.tsx'

/** Resolves with whether the user typed the password. */
type AskPassword = () => Promise<boolean>

const AskContext = createContext<AskPassword>(() => Promise.resolve(false))

/**
 * Returns a function that runs a request. When the response is 403 `password_required`, it asks for the password and
 * repeats the request. Throws the error of the request, and one with the same code when the user did not type it.
 */
export function usePasswordAgain(): <T>(work: () => PromiseLike<T>) => Promise<T> {
  const ask = useContext(AskContext)
  return useCallback(
    async (work) => {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof TassisError) || error.code !== 'password_required') throw error
        if (await ask()) return await work()
        throw new TassisError(403, { code: error.code, message: 'Nothing was done, because this needs your password.' })
      }
    },
    [ask],
  )
}

const PASSWORD = [
  { name: 'password', label: 'Password', kind: 'password', autoComplete: 'current-password', isRequired: true },
] as const

/** Requests that wait at the same time share one dialog. */
export function PasswordAgainProvider({ children }: { readonly children: ReactNode }) {
  const { user, sign_on_name: signOnName } = useSession()
  const [isOpen, setIsOpen] = useState(false)
  const waiting = useRef<((isTyped: boolean) => void)[]>([])
  const ask = useCallback<AskPassword>(
    () =>
      new Promise((resolve) => {
        waiting.current.push(resolve)
        setIsOpen(true)
      }),
    [],
  )
  const close = (isTyped: boolean) => {
    setIsOpen(false)
    for (const resolve of waiting.current.splice(0)) resolve(isTyped)
  }
  return (
    <AskContext value={ask}>
      {children}
      {isOpen && (
        <ConfirmDialog
          title={user.has_password ? 'Enter your password' : 'Confirm that it is you'}
          confirm={user.has_password ? 'Continue' : 'Use a passkey'}
          isIncomplete={!user.has_password && user.passkeys === 0}
          fields={user.has_password ? PASSWORD : []}
          run={user.has_password ? api.auth.confirmSessionPassword : confirmByPasskey}
          onDone={() => close(true)}
          onClose={() => close(false)}
          footer={() => user.has_password && user.passkeys > 0 && <UsePasskey onDone={() => close(true)} />}
        >
          <Text>You did more than ten minutes ago. It protects your secrets on a computer that was left open.</Text>
          {user.has_password ? (
            <TextInput label="Email address" value={user.email} readOnly autoComplete="username" />
          ) : (
            signOnName !== null && (
              <Text>
                <Anchor href={`/login/single-sign-on?fresh=1&next=${encodeURIComponent(location.pathname)}`}>
                  Sign in again with {signOnName}
                </Anchor>
                , then repeat this. What you typed on this page is lost.
              </Text>
            )
          )}
        </ConfirmDialog>
      )}
    </AskContext>
  )
}
