/** @module Sets up an authenticator app: password, QR code, first code, recovery codes. */
import { Anchor, Button, Code, Group, Modal, PasswordInput, Skeleton, Stack, Text, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, lazy, Suspense, useState } from 'react'
import type { CreateTotpResult } from '#client/operator-api.ts'
import { api } from '../api/client.ts'
import { readAgain } from '../api/data.ts'
import { SESSION } from '../api/session.tsx'
import { Copy } from './copy.tsx'
import { FormError, findFieldError } from './form.tsx'
import { showRecoveryCodes } from './recovery-codes.tsx'

const QrCode = lazy(async () => ({ default: (await import('./qr-code.tsx')).QrCode }))

/** The button, and the dialog that it opens. */
export function Authenticator() {
  const [isOpen, dialog] = useDisclosure(false)
  return (
    <>
      <Button variant="default" size="xs" onClick={dialog.open}>
        Set up an authenticator app
      </Button>
      <Modal opened={isOpen} onClose={dialog.close} title="Authenticator app" closeOnClickOutside={false}>
        <Setup onEnd={dialog.close} />
      </Modal>
    </>
  )
}

function Setup({ onEnd }: { onEnd(): void }) {
  const queries = useQueryClient()
  const begin = useMutation({ mutationFn: (password: string) => api.auth.createTotp({ password }) })
  const confirm = useMutation({
    mutationFn: (code: string) => api.auth.confirmTotp({ code }),
    onSuccess: ({ data }) => {
      showRecoveryCodes({ done: 'The app is set up.', codes: data.recovery_codes })
      onEnd()
      readAgain(queries, SESSION)
    },
  })
  if (begin.data)
    return (
      <CodeForm
        secret={begin.data.data}
        isBusy={confirm.isPending}
        error={confirm.error}
        onSubmit={(code) => confirm.mutate(code)}
      />
    )
  return <PasswordForm isBusy={begin.isPending} error={begin.error} onSubmit={(password) => begin.mutate(password)} />
}

interface StepProps {
  readonly isBusy: boolean
  readonly error: unknown
  onSubmit(value: string): void
}

function PasswordForm({ isBusy, error, onSubmit }: StepProps) {
  const [password, setPassword] = useState('')
  const fieldError = findFieldError(error, 'password')
  return (
    <form
      onSubmit={(event: FormEvent) => {
        event.preventDefault()
        onSubmit(password)
      }}
    >
      <Stack>
        <Text>First confirm that it is you.</Text>
        <PasswordInput
          label="Password"
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
          error={fieldError}
          autoComplete="current-password"
          required
          data-autofocus
        />
        {fieldError === undefined && <FormError error={error} />}
        <Button type="submit" loading={isBusy}>
          Continue
        </Button>
      </Stack>
    </form>
  )
}

function CodeForm({
  secret: { secret, otpauth_uri: uri },
  isBusy,
  error,
  onSubmit,
}: StepProps & { secret: CreateTotpResult }) {
  const [code, setCode] = useState('')
  const fieldError = findFieldError(error, 'code')
  return (
    <form
      onSubmit={(event: FormEvent) => {
        event.preventDefault()
        onSubmit(code.trim())
      }}
    >
      <Stack>
        <Text>
          Scan this with the app, or <Anchor href={uri}>open it in an app on this device</Anchor>.
        </Text>
        <Suspense fallback={<Skeleton height={220} width={220} />}>
          <QrCode text={uri} label="QR code with the secret for the app" />
        </Suspense>
        <Text size="sm">Or type this secret into the app:</Text>
        <Group gap="xs">
          <Code style={{ overflowWrap: 'anywhere' }}>{secret}</Code>
          <Copy value={secret} what="secret" />
        </Group>
        <TextInput
          label="Six digits that the app shows"
          value={code}
          onChange={(event) => setCode(event.currentTarget.value)}
          error={fieldError}
          inputMode="numeric"
          autoComplete="one-time-code"
          autoFocus
          required
        />
        {fieldError === undefined && <FormError error={error} />}
        <Button type="submit" loading={isBusy}>
          Turn it on
        </Button>
      </Stack>
    </form>
  )
}
