/** @module Sets up an authenticator app: password, QR code, first code, recovery codes. */
import { Anchor, Code, Group, Skeleton, Text } from '@mantine/core'
import { lazy, Suspense, useState } from 'react'
import type { CreateTotpRequest, CreateTotpResult } from '#client/operator-api.ts'
import { api } from '../api/client.ts'
import { SESSION, useSession } from '../api/session.tsx'
import { Copy } from './copy.tsx'
import { ConfirmDialog, DialogButton } from './dialog.tsx'
import { usePasswordAgain } from './password-again.tsx'
import { showRecoveryCodes } from './recovery-codes.tsx'

const QrCode = lazy(async () => ({ default: (await import('./qr-code.tsx')).QrCode }))

export const Authenticator = () => (
  <DialogButton label="Set up an authenticator app" variant="default" size="xs">
    {(close) => <Setup onEnd={close} />}
  </DialogButton>
)

function Setup({ onEnd }: { onEnd(): void }) {
  const [secret, setSecret] = useState<CreateTotpResult>()
  const { user } = useSession()
  const again = usePasswordAgain()
  if (secret) return <CodeDialog secret={secret} onEnd={onEnd} />
  return (
    <ConfirmDialog
      title="Authenticator app"
      confirm="Continue"
      closeOnClickOutside={false}
      fields={
        user.has_password
          ? [
              {
                name: 'password',
                label: 'Password',
                kind: 'password',
                autoComplete: 'current-password',
                isRequired: true,
              },
            ]
          : []
      }
      run={(body: CreateTotpRequest) => again(() => api.auth.createTotp(body))}
      staysOpen
      onDone={({ data }) => setSecret(data)}
      onClose={onEnd}
    >
      <Text>First confirm that it is you.</Text>
    </ConfirmDialog>
  )
}

interface CodeDialogProps {
  readonly secret: CreateTotpResult
  onEnd(): void
}

const CodeDialog = ({ secret: { secret, otpauth_uri: uri }, onEnd }: CodeDialogProps) => (
  <ConfirmDialog
    title="Authenticator app"
    confirm="Turn it on"
    closeOnClickOutside={false}
    fields={[
      {
        name: 'code',
        label: 'Six digits that the app shows',
        inputMode: 'numeric',
        autoComplete: 'one-time-code',
        isRequired: true,
      },
    ]}
    refreshes={[SESSION]}
    run={api.auth.confirmTotp}
    onDone={({ data }) => showRecoveryCodes({ done: 'The app is set up.', codes: data.recovery_codes })}
    onClose={onEnd}
  >
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
  </ConfirmDialog>
)
