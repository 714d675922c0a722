/** @module Adds a webhook; shows its secret once it exists. */
import { Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { CreateWebhookResult } from '#client/api.ts'
import { api } from '../api/client.ts'
import { FieldForm } from '../parts/field-form.tsx'
import { TextLink } from '../parts/links.tsx'
import { Page } from '../parts/page.tsx'
import { USUAL_EVENTS } from './webhooks/events.ts'
import { WEBHOOK_FIELDS } from './webhooks/fields.tsx'
import { SecretText, VerifyHint } from './webhooks/secret.tsx'
import { useTestEvent } from './webhooks/send-test.tsx'

export default function WebhookNewScreen() {
  const [created, setCreated] = useState<CreateWebhookResult>()
  return (
    <Page
      title={created ? 'The webhook was added' : 'Add a webhook'}
      back={{ label: 'Webhooks', target: { to: '/webhooks' } }}
    >
      {created ? (
        <Created webhook={created} />
      ) : (
        <FieldForm
          maw={640}
          needs="developer"
          label="Add the webhook"
          fields={WEBHOOK_FIELDS}
          initial={{ events: USUAL_EVENTS }}
          refreshes={['webhooks']}
          run={api.webhooks.create}
          onDone={({ data }) => setCreated(data)}
        />
      )}
    </Page>
  )
}

function Created({ webhook }: { readonly webhook: CreateWebhookResult }) {
  const test = useTestEvent(webhook.id)
  return (
    <Stack align="flex-start" maw={720}>
      <Text>
        Events are posted to <bdi>{webhook.url}</bdi> from now on. Give your server this signing secret:
      </Text>
      <SecretText secret={webhook.secret} />
      <VerifyHint />
      {test.button}
      {test.outcome}
      <TextLink to="/webhooks/$id" params={{ id: webhook.id }}>
        Go to the webhook
      </TextLink>
    </Stack>
  )
}
