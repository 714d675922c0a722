/** @module Changes a webhook. When somebody else changed it in the meantime, both versions are shown. */
import { Alert, Button, Group, Stack, Switch, Text } from '@mantine/core'
import { useState } from 'react'
import { flushSync } from 'react-dom'
import type { UpdateWebhookRequest, Webhook } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api, read } from '../../api/client.ts'
import { useStore } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { bindChecked, Form, FormError, SubmitButton, useFocusInvalid } from '../../parts/form.tsx'
import { Done, Facts, Section } from '../../parts/page.tsx'
import { FORMAT_TEXTS, findProblems, WEBHOOK_FIELDS, WebhookFields, type WebhookInput } from './fields.tsx'
import { toWebhookState } from './state.ts'

interface Draft extends WebhookInput {
  readonly isActive: boolean
}

const toDraft = ({ url, description, events, format, is_active: isActive }: Webhook): Draft => ({
  url,
  format,
  description: description ?? '',
  events,
  isActive,
})

export function WebhookSettings({ webhook }: { readonly webhook: Webhook }) {
  /** Undefined: nothing was typed, so the form follows what is stored. */
  const [draft, setDraft] = useState<Draft>()
  /** The version that the user began with. */
  const [seen, setSeen] = useState(webhook.updated_at)
  const [isChecked, setIsChecked] = useState(false)
  const change = useStore(
    (body: UpdateWebhookRequest) => api.webhooks.update(webhook.id, body),
    () => read.webhooks.get(webhook.id),
    'webhooks',
  )
  const reason = useAllowed('developer')
  const { form, focusInvalid } = useFocusInvalid(change.error)
  const input = draft ?? toDraft(webhook)
  const edit = (next: Partial<Draft>) => {
    if (!draft) setSeen(webhook.updated_at)
    setDraft({ ...input, ...next })
  }
  const isConflict = change.error instanceof TassisError && change.error.code === 'webhook_changed'
  const save = (version: string) => {
    flushSync(() => setIsChecked(true))
    if (Object.keys(findProblems(input)).length > 0) return focusInvalid()
    if (reason !== undefined || change.isPending) return
    const { isActive, ...fields } = input
    change.mutate(
      { ...fields, url: fields.url.trim(), is_active: isActive, updated_at: version },
      { onSuccess: () => setDraft(undefined) },
    )
  }
  const discard = () => {
    setDraft(undefined)
    change.reset()
  }
  const submit = () => save(seen)
  return (
    <Section title="Settings" size="h3">
      <Form ref={form} onSubmit={submit} maw={640} align="flex-start">
        {toWebhookState(webhook) === 'deactivated' ? (
          <Text size="sm">Failures deactivated this webhook. Saving a change activates it again.</Text>
        ) : (
          <Switch
            label="Post events to this webhook"
            description="Off: events of that time are not sent later, but can be replayed."
            {...bindChecked(input.isActive, (checked) => edit({ isActive: checked }))}
            disabled={reason !== undefined}
          />
        )}
        <WebhookFields
          input={input}
          error={change.error}
          problems={isChecked ? findProblems(input) : {}}
          isReadOnly={reason !== undefined}
          onChange={edit}
        />
        {isConflict ? (
          <Conflict
            stored={webhook}
            isBusy={change.isPending}
            onOverwrite={() => save(webhook.updated_at)}
            onDiscard={discard}
          />
        ) : (
          <FormError error={change.error} fields={WEBHOOK_FIELDS} />
        )}
        <Done message={change.isSuccess && !draft ? 'The webhook was saved.' : undefined} />
        <Group gap="xs">
          <SubmitButton reason={reason} loading={change.isPending} disabled={draft === undefined}>
            Save
          </SubmitButton>
          {draft !== undefined && (
            <Button variant="default" onClick={discard}>
              Discard the changes
            </Button>
          )}
        </Group>
      </Form>
    </Section>
  )
}

interface ConflictProps {
  readonly stored: Webhook
  readonly isBusy: boolean
  onOverwrite(): void
  onDiscard(): void
}

const Conflict = ({ stored, isBusy, onOverwrite, onDiscard }: ConflictProps) => (
  <Alert color="yellow" role="alert" title="Somebody changed this webhook in the meantime">
    <Stack gap="xs">
      <Text size="sm">Your changes are still in the form. This is stored now:</Text>
      <Facts
        facts={[
          ['URL', stored.url],
          ['Description', stored.description],
          ['Events', stored.events.join(', ')],
          ['Format', FORMAT_TEXTS[stored.format]],
          ['State', stored.is_active ? 'On' : 'Off'],
        ]}
      />
      <Group gap="xs">
        <Button size="xs" loading={isBusy} onClick={onOverwrite}>
          Store my version
        </Button>
        <Button size="xs" variant="default" onClick={onDiscard}>
          Keep what is stored
        </Button>
      </Group>
    </Stack>
  </Alert>
)
