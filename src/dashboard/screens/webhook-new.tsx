/** @module Adds a webhook; shows its secret once it exists. */
import { Alert, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import { flushSync } from 'react-dom'
import type { CreateWebhookResult } from '#client/api.ts'
import { api } from '../api/client.ts'
import { useChange } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { Form, FormError, SubmitButton, useFocusInvalid } from '../parts/form.tsx'
import { TextLink } from '../parts/links.tsx'
import { Page } from '../parts/page.tsx'
import { USUAL_EVENTS } from './webhooks/events.ts'
import { findProblems, WEBHOOK_FIELDS, WebhookFields, type WebhookInput } from './webhooks/fields.tsx'
import { SecretText, VerifyHint } from './webhooks/secret.tsx'
import { SendTest } from './webhooks/send-test.tsx'

const EMPTY: WebhookInput = { url: '', description: '', events: USUAL_EVENTS, format: 'tassis' }

export default function WebhookNewScreen() {
  const [created, setCreated] = useState<CreateWebhookResult>()
  return (
    <Page title={created ? 'The webhook was added' : 'Add a webhook'}>
      {created ? <Created webhook={created} /> : <NewForm onCreated={setCreated} />}
    </Page>
  )
}

function NewForm({ onCreated }: { onCreated(webhook: CreateWebhookResult): void }) {
  const [input, setInput] = useState(EMPTY)
  const [isChecked, setIsChecked] = useState(false)
  const create = useChange(api.webhooks.create, 'webhooks')
  const reason = useAllowed('developer')
  const { form, focusInvalid } = useFocusInvalid(create.error)
  const problems = isChecked ? findProblems(input) : {}
  const submit = () => {
    flushSync(() => setIsChecked(true))
    if (Object.keys(findProblems(input)).length > 0) return focusInvalid()
    if (reason !== undefined || create.isPending) return
    create.mutate({ ...input, url: input.url.trim() }, { onSuccess: ({ data }) => onCreated(data) })
  }
  return (
    <Form ref={form} onSubmit={submit} maw={640} align="flex-start">
      {reason !== undefined && <Alert color="gray">{reason}</Alert>}
      <WebhookFields input={input} error={create.error} problems={problems} onChange={setInput} />
      <FormError error={create.error} fields={WEBHOOK_FIELDS} />
      <Group>
        <SubmitButton reason={reason} loading={create.isPending}>
          Add the webhook
        </SubmitButton>
        <TextLink to="/webhooks">Cancel</TextLink>
      </Group>
    </Form>
  )
}

function Created({ webhook }: { readonly webhook: CreateWebhookResult }) {
  return (
    <Stack align="flex-start" maw={720}>
      <Text>
        Events from now on are posted to <bdi>{webhook.url}</bdi>. Give your receiver this signing secret:
      </Text>
      <SecretText secret={webhook.secret} />
      <VerifyHint />
      <SendTest id={webhook.id} />
      <TextLink to={`/webhooks/${webhook.id}`}>Go to the webhook</TextLink>
    </Stack>
  )
}
