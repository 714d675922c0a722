/** @module The authenticator app of the user: set up, renew the recovery codes, turn off. */
import { Alert, Group, PasswordInput, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { SESSION, useSession } from '../../api/session.tsx'
import { Authenticator } from '../../parts/authenticator.tsx'
import { ActionButton, DialogFrame, type TextField, useFields } from '../../parts/form.tsx'
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
        <ActionButton size="xs" variant="default" reason={undefined} onClick={() => setDialog('renew')}>
          Renew the recovery codes
        </ActionButton>
        <ActionButton size="xs" variant="default" reason={undefined} onClick={() => setDialog('off')}>
          Turn it off
        </ActionButton>
      </Group>
      {dialog === 'renew' && <RenewDialog onClose={close} />}
      {dialog === 'off' && <TurnOffDialog onClose={close} />}
    </Stack>
  )
}

type Factors = Readonly<Record<'password' | 'code', string>>

const NO_FACTORS: Factors = { password: '', code: '' }

function RenewDialog({ onClose }: { onClose(): void }) {
  const renew = useChange((body: Factors) => api.auth.renewRecoveryCodes(body), SESSION)
  const { values, field, fields } = useFields(NO_FACTORS, renew.error)
  return (
    <DialogFrame
      title="Renew the recovery codes?"
      confirm="Renew"
      work={renew}
      fields={fields}
      isIncomplete={values.password === '' || values.code === ''}
      onConfirm={() =>
        renew.mutate(values, {
          onSuccess: ({ data }) => {
            showRecoveryCodes({
              done: 'The codes that you had before are no longer valid.',
              codes: data.recovery_codes,
            })
            onClose()
          },
        })
      }
      onClose={onClose}
    >
      <Text>You get ten new codes. Those before become invalid.</Text>
      <FactorFields field={field} />
    </DialogFrame>
  )
}

function TurnOffDialog({ onClose }: { onClose(): void }) {
  const turnOff = useChange((body: Factors) => api.auth.deleteTotp(body), SESSION)
  const { values, field, fields } = useFields(NO_FACTORS, turnOff.error)
  return (
    <DialogFrame
      title="Turn the authenticator app off?"
      confirm="Turn it off"
      isDangerous
      work={turnOff}
      fields={fields}
      isIncomplete={values.password === '' || values.code === ''}
      onConfirm={() => turnOff.mutate(values, { onSuccess: onClose })}
      onClose={onClose}
    >
      <Text>Your password alone is then enough to sign in as you. The recovery codes become invalid.</Text>
      <FactorFields field={field} />
    </DialogFrame>
  )
}

const FactorFields = ({ field }: { field(name: keyof Factors): TextField }) => (
  <>
    <PasswordInput {...field('password')} label="Password" autoComplete="current-password" required data-autofocus />
    <TextInput
      {...field('code')}
      label="Code"
      description="Six digits of the app, or a recovery code."
      autoComplete="one-time-code"
      required
    />
  </>
)
