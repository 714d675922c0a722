/** @module Sets up an authenticator app: password, secret, first code, recovery codes. */
import { Alert, Anchor, Button, Code, Modal, PasswordInput, Stack, Text, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { request } from '../../api/client.ts'

interface Secret {
  readonly secret: string
  readonly otpauth_uri: string
}

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
  const [secret, setSecret] = useState<Secret>()
  const [recoveryCodes, setRecoveryCodes] = useState<readonly string[]>()
  const [value, setValue] = useState('')
  const [error, setError] = useState<string>()
  const [isSending, setIsSending] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setIsSending(true)
    try {
      if (secret) {
        const { data } = await request<{ data: { recovery_codes: string[] } }>('POST', '/v1/auth/totp/confirm', {
          body: { code: value.trim() },
        })
        setRecoveryCodes(data.recovery_codes)
      } else {
        const { data } = await request<{ data: Secret }>('POST', '/v1/auth/totp', { body: { password: value } })
        setSecret(data)
      }
      setValue('')
      setError(undefined)
    } catch (cause) {
      setError(cause instanceof Error ? cause.message : String(cause))
    } finally {
      setIsSending(false)
    }
  }
  const finish = async () => {
    onEnd()
    await queries.invalidateQueries({ queryKey: ['session'] })
  }
  if (recoveryCodes) return <RecoveryCodes codes={recoveryCodes} onEnd={finish} />
  return (
    <form onSubmit={submit}>
      <Stack>
        {error && <Alert color="red">{error}</Alert>}
        {secret ? <SecretText {...secret} /> : <Text>First confirm that it is you.</Text>}
        {secret ? (
          <TextInput
            key="code"
            label="Six digits that the app shows"
            value={value}
            onChange={(event) => setValue(event.currentTarget.value)}
            inputMode="numeric"
            autoComplete="one-time-code"
            required
          />
        ) : (
          <PasswordInput
            key="password"
            label="Password"
            value={value}
            onChange={(event) => setValue(event.currentTarget.value)}
            autoComplete="current-password"
            required
            data-autofocus
          />
        )}
        <Button type="submit" loading={isSending}>
          {secret ? 'Turn it on' : 'Continue'}
        </Button>
      </Stack>
    </form>
  )
}

const SecretText = ({ secret, otpauth_uri: uri }: Secret) => (
  <>
    <Text>
      Type this secret into the app, or <Anchor href={uri}>open it in an app on this device</Anchor>.
    </Text>
    <Code block>{secret}</Code>
  </>
)

const RecoveryCodes = ({ codes, onEnd }: { readonly codes: readonly string[]; onEnd(): void }) => (
  <Stack>
    <Text>
      The app is set up. Keep these recovery codes: each signs you in once without the app. They are not shown again.
    </Text>
    <Code block>{codes.join('\n')}</Code>
    <Button onClick={onEnd}>I have kept them</Button>
  </Stack>
)
