/** @module The signing secret of a webhook: shown on request, copied, replaced. */
import { Anchor, Code, Group, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import type { RevealWebhookSecretResult, Webhook } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { RunButton } from '../../parts/buttons.tsx'
import { Copy } from '../../parts/copy.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { Section } from '../../parts/page.tsx'
import { usePasswordAgain } from '../../parts/password-again.tsx'
import { showSecret } from '../../parts/secret-dialog.tsx'
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
  <Text size="xs" c="dimmed" maw={720}>
    Check the header <Code>X-Service-Signature: t=…,v1=…</Code> of each request: <Code>v1</Code> is the HMAC-SHA256, in
    hex, of <Code>t</Code>, a dot and the exact body, with the whole secret as the key. Refuse an old <Code>t</Code>.{' '}
    <Anchor href="/docs" underline="always" inherit>
      API description
    </Anchor>
  </Text>
)

interface SigningSecretProps {
  reveal(): PromiseLike<{ readonly data: RevealWebhookSecretResult }>
  rotate(): PromiseLike<{ readonly data: RevealWebhookSecretResult }>
  /** Of the dialog that asks before it is replaced. */
  readonly title: string
  /** Who must know the new one: "receiver". */
  readonly receiver: string
  /** What replacing it means. */
  readonly children: ReactNode
}

/** A secret, with what can be done with it. */
export function SigningSecret({ title, receiver, children, ...secret }: SigningSecretProps) {
  const withPassword = usePasswordAgain()
  const show = (text: string) => (response: { readonly data: RevealWebhookSecretResult }) =>
    showSecret({ title: 'Signing secret', text, secret: response.data.secret })
  return (
    <>
      <Group gap="xs">
        <RunButton
          label="Show the secret"
          size="xs"
          variant="default"
          needs="developer"
          run={() => withPassword(secret.reveal)}
          onDone={show('It signs every request.')}
        />
        <ConfirmButton
          label="Replace the secret"
          size="xs"
          needs="developer"
          title={title}
          refreshes={['webhooks']}
          run={() => withPassword(secret.rotate)}
          onDone={show(
            `This is the new secret. It signs every request from now on, including retries. Give it to your ${receiver}.`,
          )}
        >
          {children}
        </ConfirmButton>
      </Group>
      <VerifyHint />
    </>
  )
}

export const WebhookSecret = ({ webhook }: { readonly webhook: Webhook }) => (
  <Section
    title="Signing secret"
    description={
      <Time
        before={webhook.secret_rotated_at ? 'Replaced ' : 'Created '}
        iso={webhook.secret_rotated_at ?? webhook.created_at}
      />
    }
  >
    <SigningSecret
      reveal={() => api.webhooks.revealSecret(webhook.id)}
      rotate={() => api.webhooks.rotateSecret(webhook.id, { updated_at: webhook.updated_at })}
      title="Replace the secret?"
      receiver="receiver"
    >
      <Text>
        The old secret becomes invalid immediately: the new one signs every later request, including retries. Your
        receiver must know it before it can verify them.
      </Text>
      <Text size="sm">
        Events that your receiver refuses in between with a 4xx are not sent again automatically; replay them
        afterwards. A 5xx is retried after 15 minutes.
      </Text>
    </SigningSecret>
  </Section>
)
