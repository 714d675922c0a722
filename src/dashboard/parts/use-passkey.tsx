/** @module Confirms with a passkey that the signed-in user is there. */
import { Button, Stack } from '@mantine/core'
import { api } from '../api/client.ts'
import { useChange } from '../api/data.ts'
import { FormError } from './form-error.tsx'
import { signWithPasskey } from './passkey.ts'

/** As good as the password and a code. */
export async function confirmByPasskey(): Promise<void> {
  const { data } = await api.auth.createPasskeyChallenge()
  await api.auth.confirmSessionPasskey({ credential: await signWithPasskey(data.options) })
}

export function UsePasskey({ onDone }: { onDone(): void }) {
  const work = useChange(confirmByPasskey)
  return (
    <Stack gap="xs" align="flex-start">
      <FormError error={work.error} />
      <Button variant="default" loading={work.isPending} onClick={() => work.mutate(undefined, { onSuccess: onDone })}>
        Use a passkey
      </Button>
    </Stack>
  )
}
