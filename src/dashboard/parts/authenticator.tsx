/** @module Sets up an authenticator app: password, QR code, first code, recovery codes. */
import { Anchor, Code, Group, Skeleton, Text } from '@mantine/core'
import { lazy, Suspense, useState } from 'react'
import type { CreateTotpRequest, CreateTotpResult } from '#client/operator-api.ts'
import { api } from '../api/client.ts'
import { SESSION, useSession } from '../api/session.tsx'
import { Copy } from './copy.tsx'
import { ConfirmDialog, DialogButton } from './dialog.tsx'
import { PASSWORD, usePasswordAgain } from './password-again.tsx'
import { showRecoveryCodes } from './secret-dialog.tsx'

const QR_SIZE_PX = 220

/** Dark on white in both colour schemes, with the border of ISO/IEC 18004: cameras expect that. */
const QrCode = lazy(async () => {
  const { renderSVG } = await import('uqr')
  return {
    default: ({ text }: { readonly text: string }) => (
      <img
        src={`data:image/svg+xml,${encodeURIComponent(renderSVG(text, { border: 4, ecc: 'M' }))}`}
        alt="QR code with the secret for the app"
        width={QR_SIZE_PX}
        height={QR_SIZE_PX}
      />
    ),
  }
})

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
      fields={user.has_password ? PASSWORD : []}
      run={(body: CreateTotpRequest) => again(() => api.auth.createTotp(body))}
      staysOpen
      onDone={({ data }) => setSecret(data)}
      onClose={onEnd}
    >
      First confirm that it is you.
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
    onDone={({ data }) => showRecoveryCodes('The app is set up.', data.recovery_codes)}
    onClose={onEnd}
  >
    <Text>
      Scan this with the app, or <Anchor href={uri}>open it in an app on this device</Anchor>.
    </Text>
    <Suspense fallback={<Skeleton height={QR_SIZE_PX} width={QR_SIZE_PX} />}>
      <QrCode text={uri} />
    </Suspense>
    <Text size="sm">Or type this secret into the app:</Text>
    <Group gap="xs">
      <Code style={{ overflowWrap: 'anywhere' }}>{secret}</Code>
      <Copy value={secret} what="secret" />
    </Group>
  </ConfirmDialog>
)
