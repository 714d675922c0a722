/** @module The signing secret of a webhook: shown on request, copied, replaced. */
import { Alert, Anchor, Button, Code, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { WebhookRecord } from '#features/webhooks/webhooks/history/model.ts'
import { useAllowed } from '../../api/session.tsx'
import { useRevealSecret, useRotateSecret } from '../../api/webhooks.ts'
import { Copy } from '../../parts/copy.tsx'
import { ActionButton, DialogFrame, FormError } from '../../parts/form.tsx'
import { Section } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'

export const SecretText = ({ secret }: { readonly secret: string }) => (
  <Group gap="xs" align="center" maw="100%">
    <Code fz="sm" style={{ overflowWrap: 'anywhere', minWidth: 0 }}>
      {secret}
    </Code>
    <Copy value={secret} what="signing secret" />
  </Group>
)

export const VerifyHint = () => (
  <Text size="sm" maw={720}>
    Each request has the header <Code>X-Service-Signature: t=…,v1=…</Code>. <Code>v1</Code> is the HMAC-SHA256, in hex,
    of the value of <Code>t</Code>, a dot and the exact body, with the whole secret as the key. Compare it before you
    believe a request, and refuse an old <Code>t</Code>.{' '}
    <Anchor href="/docs" underline="always">
      API description
    </Anchor>
  </Text>
)

export function WebhookSecret({ webhook }: { readonly webhook: WebhookRecord }) {
  const [secret, setSecret] = useState<string>()
  const [isRotated, setIsRotated] = useState(false)
  const [isAsking, setIsAsking] = useState(false)
  const reveal = useRevealSecret(webhook.id)
  const reason = useAllowed('developer')
  const { secret_rotated_at: rotatedAt, created_at: createdAt } = webhook
  return (
    <Section title="Signing secret" size="h3" align="flex-start">
      <Text size="sm">
        {rotatedAt ? 'Replaced' : 'Created'} <Time iso={rotatedAt ?? createdAt} isExact />
      </Text>
      <div role="status">
        {secret !== undefined && (
          <Stack gap="xs" align="flex-start">
            {isRotated && (
              <Alert color="green">
                This is the new secret. It signs every request from now on, including retries. Give it to your receiver.
              </Alert>
            )}
            <SecretText secret={secret} />
          </Stack>
        )}
      </div>
      {!isAsking && <FormError error={reveal.error} />}
      <Group gap="xs">
        {secret === undefined ? (
          <ActionButton
            reason={reason}
            variant="default"
            size="xs"
            loading={reveal.isPending}
            onClick={() => reveal.mutate(undefined, { onSuccess: setSecret })}
          >
            Show the secret
          </ActionButton>
        ) : (
          <Button
            variant="default"
            size="xs"
            onClick={() => {
              setSecret(undefined)
              setIsRotated(false)
            }}
          >
            Hide the secret
          </Button>
        )}
        <ActionButton reason={reason} variant="default" size="xs" onClick={() => setIsAsking(true)}>
          Replace the secret
        </ActionButton>
      </Group>
      <VerifyHint />
      {isAsking && (
        <RotateDialog
          webhook={webhook}
          onClose={(next) => {
            setIsAsking(false)
            if (next === undefined) return
            setSecret(next)
            setIsRotated(true)
          }}
        />
      )}
    </Section>
  )
}

interface RotateDialogProps {
  readonly webhook: WebhookRecord
  /** @param secret the new one; undefined: nothing was done */
  onClose(secret?: string): void
}

function RotateDialog({ webhook, onClose }: RotateDialogProps) {
  const rotate = useRotateSecret(webhook.id)
  return (
    <DialogFrame
      title="Replace the secret?"
      confirm="Replace the secret"
      isDangerous
      work={rotate}
      onConfirm={() => rotate.mutate(webhook.updated_at, { onSuccess: onClose })}
      onClose={() => onClose()}
    >
      <Text>
        The old secret becomes invalid immediately: the new one signs every later request, including retries. Your
        receiver must know it before it can verify them.
      </Text>
      <Text size="sm">
        Events that your receiver refuses in between with a 4xx are not sent again automatically; replay them
        afterwards. A 5xx is retried after 15 minutes.
      </Text>
    </DialogFrame>
  )
}
