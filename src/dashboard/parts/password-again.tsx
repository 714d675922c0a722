/**
 * @module Asks for the password again when `/v1` requires it: the request is repeated afterwards, so screens need not
 * know when that is.
 */
import { Button, Group, Modal, PasswordInput, Stack, Text, TextInput } from '@mantine/core'
import { createContext, type FormEvent, type ReactNode, useCallback, useContext, useRef, useState } from 'react'
import { TassisError } from '#client/client.ts'
import { api } from '../api/client.ts'
import { useSession } from '../api/session.tsx'
import { FormError, findFieldError } from './form.tsx'

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

/** Requests that wait at the same time share one dialog. */
export function PasswordAgainProvider({ children }: { readonly children: ReactNode }) {
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
      {/* Above a dialog that asked for it. */}
      <Modal
        opened={isOpen}
        onClose={() => close(false)}
        title="Enter your password"
        closeButtonProps={{ 'aria-label': 'Close' }}
        zIndex={300}
      >
        <PasswordForm onDone={close} />
      </Modal>
    </AskContext>
  )
}

function PasswordForm({ onDone }: { onDone(isTyped: boolean): void }) {
  const { user } = useSession()
  const [password, setPassword] = useState('')
  const [error, setError] = useState<unknown>()
  const [isSending, setIsSending] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    // The form is inside of others in the tree of components, not on the page.
    event.stopPropagation()
    if (isSending) return
    setIsSending(true)
    try {
      await api.auth.confirmSessionPassword({ password })
      setPassword('')
      onDone(true)
    } catch (cause) {
      setError(cause)
    } finally {
      setIsSending(false)
    }
  }
  const fieldError = findFieldError(error, 'password')
  return (
    <form onSubmit={submit}>
      <Stack>
        <Text>You typed it more than ten minutes ago. It protects your secrets on a computer that was left open.</Text>
        <TextInput label="Email address" value={user.email} readOnly autoComplete="username" />
        <PasswordInput
          label="Password"
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
          error={fieldError}
          required
          autoComplete="current-password"
          data-autofocus
        />
        {fieldError === undefined && <FormError error={error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={() => onDone(false)}>
            Back
          </Button>
          <Button type="submit" loading={isSending}>
            Continue
          </Button>
        </Group>
      </Stack>
    </form>
  )
}
