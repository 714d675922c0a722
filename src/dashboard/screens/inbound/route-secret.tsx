/** @module The secret that signs the requests to the URLs of all routes: shown on request, copied, replaced. */
import { Alert, Button, Group, Stack, Text } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import type { SecretResult } from '#features/webhooks/webhooks/history/model.ts'
import { requestData } from '../../api/client.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton, DialogFrame, FormError } from '../../parts/form.tsx'
import { usePasswordAgain } from '../../parts/password-again.tsx'
import { SecretText, VerifyHint } from '../webhooks/secret.tsx'

function useSecret(action: 'reveal' | 'rotate') {
  const withPassword = usePasswordAgain()
  return useMutation({
    mutationFn: () =>
      withPassword(async () => (await requestData<SecretResult>('POST', `/v1/inbound-routes/secret/${action}`)).secret),
  })
}

interface ShownSecret {
  readonly text: string
  readonly isNew: boolean
}

export function RouteSecret() {
  const [shown, setShown] = useState<ShownSecret>()
  const [isAsking, setIsAsking] = useState(false)
  const reason = useAllowed('developer')
  const reveal = useSecret('reveal')
  const rotate = useSecret('rotate')
  return (
    <Stack gap="sm" align="flex-start">
      <Text size="sm" maw={720}>
        One secret signs the requests to the URLs of all routes of the account.
      </Text>
      <div role="status">
        {shown && (
          <Stack gap="xs" align="flex-start">
            {shown.isNew && (
              <Alert color="green">
                This is the new secret. It signs every request from now on, including retries. Give it to your
                receivers.
              </Alert>
            )}
            <SecretText secret={shown.text} />
          </Stack>
        )}
      </div>
      <FormError error={reveal.error} />
      <Group gap="xs">
        {shown ? (
          <Button variant="default" size="xs" onClick={() => setShown(undefined)}>
            Hide the secret
          </Button>
        ) : (
          <ActionButton
            reason={reason}
            variant="default"
            size="xs"
            loading={reveal.isPending}
            onClick={() => reveal.mutate(undefined, { onSuccess: (text) => setShown({ text, isNew: false }) })}
          >
            Show the secret
          </ActionButton>
        )}
        <ActionButton reason={reason} variant="default" size="xs" onClick={() => setIsAsking(true)}>
          Replace the secret
        </ActionButton>
      </Group>
      <VerifyHint />
      {isAsking && (
        <DialogFrame
          title="Replace the secret of all routes?"
          confirm="Replace the secret"
          isDangerous
          work={rotate}
          onConfirm={() =>
            rotate.mutate(undefined, {
              onSuccess: (text) => {
                setShown({ text, isNew: true })
                setIsAsking(false)
              },
            })
          }
          onClose={() => setIsAsking(false)}
        >
          <Text>
            The new secret signs every later request of every route, including retries. The old one also signs for a
            day, but only in the header webhook-signature: receivers that verify another header must know the new one
            first.
          </Text>
        </DialogFrame>
      )}
    </Stack>
  )
}
