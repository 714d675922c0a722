/** @module The fields of a webhook: URL, description, format, events. */
import { Anchor, Button, Checkbox, Group, NativeSelect, Stack, Text, TextInput } from '@mantine/core'
import type { Webhook } from '#client/api.ts'
import { bindText, CODE_INPUT, findFieldError } from '../../parts/form.tsx'
import { EVENT_EXPLANATIONS, EVENT_GROUPS, EVENT_NAMES } from './events.ts'

type PayloadFormat = Webhook['format']

export interface WebhookInput {
  readonly url: string
  readonly events: readonly string[]
  readonly description: string
  readonly format: PayloadFormat
}

interface WebhookFieldsProps {
  readonly input: WebhookInput
  readonly error: unknown
  /** Problems that were found before a request, by field. */
  readonly problems: Readonly<Partial<Record<keyof WebhookInput, string>>>
  readonly isReadOnly?: boolean
  onChange(input: WebhookInput): void
}

export const FORMAT_TEXTS: Readonly<Record<PayloadFormat, string>> = {
  tassis: 'Tassis',
  resend: 'Resend',
  postmark: 'Postmark',
}
const FORMATS = Object.entries(FORMAT_TEXTS).map(([value, label]) => ({ value, label }))

export const findProblems = ({ url, events }: WebhookInput): WebhookFieldsProps['problems'] => ({
  ...(url.trim() === '' && { url: 'Enter the URL that gets the events.' }),
  ...(events.length === 0 && { events: 'Choose at least one event.' }),
})

/** Those that show their errors themselves. */
export const WEBHOOK_FIELDS = ['url', 'events', 'description', 'format']

export function WebhookFields({ input, error, problems, isReadOnly = false, onChange }: WebhookFieldsProps) {
  const { url, description, events, format } = input
  const eventsError = problems.events ?? findFieldError(error, 'events')
  return (
    <>
      <TextInput
        w="100%"
        label="URL"
        description="Begins with https://, not http://, and leads to a public address. Each event is a POST request with JSON. To try it on your own machine, see docs/events.md."
        placeholder="https://your-server.example/webhook"
        type="url"
        {...bindText(url, (value) => onChange({ ...input, url: value }))}
        error={problems.url ?? findFieldError(error, 'url')}
        readOnly={isReadOnly}
        {...CODE_INPUT}
        required
      />
      <TextInput
        w="100%"
        label="Description"
        description="Optional: what you call it, such as the program that gets the events."
        {...bindText(description, (value) => onChange({ ...input, description: value }))}
        maxLength={200}
        error={findFieldError(error, 'description')}
        readOnly={isReadOnly}
        autoComplete="off"
        dir="auto"
      />
      <NativeSelect
        w="100%"
        label="Format"
        description="Form of the payloads: receivers written for another provider read its own. Those forms do not have all events."
        data={FORMATS}
        {...bindText(format, (value) => onChange({ ...input, format: value as PayloadFormat }))}
        error={findFieldError(error, 'format')}
        disabled={isReadOnly}
      />
      <Checkbox.Group
        label="Events"
        value={[...events]}
        onChange={(chosen) => onChange({ ...input, events: chosen })}
        {...(eventsError !== undefined && { error: eventsError })}
      >
        <Stack gap="sm" mt={4}>
          {!isReadOnly && (
            <Group gap="xs">
              <Button
                size="compact-sm"
                variant="default"
                onClick={() => onChange({ ...input, events: [...EVENT_NAMES] })}
              >
                All
              </Button>
              <Button size="compact-sm" variant="default" onClick={() => onChange({ ...input, events: [] })}>
                None
              </Button>
              <Text size="sm" role="status">
                {events.length} of {EVENT_NAMES.length} chosen
              </Text>
            </Group>
          )}
          {EVENT_GROUPS.map(({ label, events: choices }) => (
            <Stack key={label} gap={4} role="group" aria-label={label}>
              <Text size="sm" fw={600}>
                {label}
              </Text>
              {choices.map((name) => (
                <Checkbox
                  key={name}
                  value={name}
                  disabled={isReadOnly}
                  label={name}
                  description={EVENT_EXPLANATIONS[name]}
                />
              ))}
            </Stack>
          ))}
        </Stack>
      </Checkbox.Group>
      <Text size="sm">
        What each event contains:{' '}
        <Anchor href="/docs" underline="always">
          API description
        </Anchor>
      </Text>
    </>
  )
}
