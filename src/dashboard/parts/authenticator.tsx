/** @module Sets up an authenticator app: password, QR code, first code, recovery codes. */
import { Anchor, Button, Code, Group, Modal, PasswordInput, Skeleton, Text, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { lazy, Suspense } from 'react'
import type { CreateTotpResult } from '#client/operator-api.ts'
import { api } from '../api/client.ts'
import { useChange } from '../api/data.ts'
import { SESSION } from '../api/session.tsx'
import { Copy } from './copy.tsx'
import { Form, FormError, useFields } from './form.tsx'
import { showRecoveryCodes } from './recovery-codes.tsx'

const QrCode = lazy(async () => ({ default: (await import('./qr-code.tsx')).QrCode }))

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
  const begin = useChange(api.auth.createTotp)
  const { values, field, fields } = useFields({ password: '' }, begin.error)
  if (begin.data) return <CodeForm secret={begin.data.data} onEnd={onEnd} />
  return (
    <Form onSubmit={() => begin.mutate(values)} noValidate={false}>
      <Text>First confirm that it is you.</Text>
      <PasswordInput {...field('password')} label="Password" autoComplete="current-password" required data-autofocus />
      <FormError error={begin.error} fields={fields} />
      <Button type="submit" loading={begin.isPending}>
        Continue
      </Button>
    </Form>
  )
}

interface CodeFormProps {
  readonly secret: CreateTotpResult
  onEnd(): void
}

function CodeForm({ secret: { secret, otpauth_uri: uri }, onEnd }: CodeFormProps) {
  const confirm = useChange((code: string) => api.auth.confirmTotp({ code }), SESSION)
  const { values, field, fields } = useFields({ code: '' }, confirm.error)
  const submit = () =>
    confirm.mutate(values.code.trim(), {
      onSuccess: ({ data }) => {
        showRecoveryCodes({ done: 'The app is set up.', codes: data.recovery_codes })
        onEnd()
      },
    })
  return (
    <Form onSubmit={submit} noValidate={false}>
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
        {...field('code')}
        label="Six digits that the app shows"
        inputMode="numeric"
        autoComplete="one-time-code"
        autoFocus
        required
      />
      <FormError error={confirm.error} fields={fields} />
      <Button type="submit" loading={confirm.isPending}>
        Turn it on
      </Button>
    </Form>
  )
}
