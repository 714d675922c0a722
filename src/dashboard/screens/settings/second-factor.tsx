/** @module The authenticator app of the user: set up, renew the recovery codes, turn off. */
import { Alert, Group, PasswordInput, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { SESSION, useSession } from '../../api/session.tsx'
import { Authenticator } from '../../parts/authenticator.tsx'
import { DialogFrame, SmallAction, useFields } from '../../parts/form.tsx'
import { showRecoveryCodes } from '../../parts/recovery-codes.tsx'
import { StatusLabel } from '../../parts/status.tsx'

const FEW_RECOVERY_CODES = 3

export function SecondFactor() {
  const { user } = useSession()
  const [dialog, setDialog] = useState<'renew' | 'off'>()
  const close = () => setDialog(undefined)
  if (!user.totp_enabled)
    return (
      <Stack gap="sm" align="flex-start">
        <StatusLabel tone="warning">Off</StatusLabel>
        <Text size="sm" maw={640}>
          With an app that shows a new code every 30 seconds, a stolen password is not enough to sign in.
        </Text>
        <Authenticator />
      </Stack>
    )
  const left = user.recovery_codes_left
  return (
    <Stack gap="sm" align="flex-start">
      <StatusLabel tone="good">On</StatusLabel>
      <Text size="sm" maw={640}>
        Signing in needs a code of the app, or one of your recovery codes. {left} recovery code
        {left === 1 ? ' is' : 's are'} left.
      </Text>
      {left <= FEW_RECOVERY_CODES && (
        <Alert color="yellow" title="Few recovery codes are left">
          Without them and without the app you cannot sign in. Renew them now.
        </Alert>
      )}
      <Group gap="xs">
        <SmallAction reason={undefined} onClick={() => setDialog('renew')}>
          Renew the recovery codes
        </SmallAction>
        <SmallAction reason={undefined} onClick={() => setDialog('off')}>
          Turn it off
        </SmallAction>
      </Group>
      {dialog === 'renew' && <RenewDialog onClose={close} />}
      {dialog === 'off' && <TurnOffDialog onClose={close} />}
    </Stack>
  )
}

const NO_FACTORS = { password: '', code: '' }

const RenewDialog = ({ onClose }: { onClose(): void }) => (
  <FactorDialog
    title="Renew the recovery codes?"
    confirm="Renew"
    text="You get ten new codes. Those before become invalid."
    run={async (factors) => {
      const { data } = await api.auth.renewRecoveryCodes(factors)
      showRecoveryCodes({ done: 'The codes that you had before are no longer valid.', codes: data.recovery_codes })
    }}
    onClose={onClose}
  />
)

const TurnOffDialog = ({ onClose }: { onClose(): void }) => (
  <FactorDialog
    title="Turn the authenticator app off?"
    confirm="Turn it off"
    isDangerous
    text="Your password alone is then enough to sign in as you. The recovery codes become invalid."
    run={api.auth.deleteTotp}
    onClose={onClose}
  />
)

interface FactorDialogProps {
  readonly title: string
  readonly confirm: string
  readonly isDangerous?: boolean
  readonly text: string
  run(factors: typeof NO_FACTORS): PromiseLike<unknown>
  onClose(): void
}

/** Asks for both factors before a change. */
function FactorDialog({ text, run, ...frame }: FactorDialogProps) {
  const change = useChange(run, SESSION)
  const { values, field, fields } = useFields(NO_FACTORS, change.error)
  return (
    <DialogFrame
      {...frame}
      work={change}
      fields={fields}
      isIncomplete={values.password === '' || values.code === ''}
      onConfirm={() => change.mutate(values, { onSuccess: frame.onClose })}
    >
      <Text>{text}</Text>
      <PasswordInput {...field('password')} label="Password" autoComplete="current-password" required data-autofocus />
      <TextInput
        {...field('code')}
        label="Code"
        description="Six digits of the app, or a recovery code."
        autoComplete="one-time-code"
        required
      />
    </DialogFrame>
  )
}
