/** @module The fields of a webhook: URL, description, format, events. */
import { Anchor, Button, Checkbox, Group, Stack, Text } from '@mantine/core'
import type { Webhook } from '#client/api.ts'
import type { Field, Input } from '../../parts/fields.ts'
import { EVENT_EXPLANATIONS, EVENT_GROUPS, EVENT_NAMES } from './events.ts'

const FORMAT_TEXTS: Readonly<Record<Webhook['format'], string>> = {
  tassis: 'Tassis',
  resend: 'Resend',
  postmark: 'Postmark',
}

export const WEBHOOK_FIELDS: readonly Field<'url' | 'description' | 'format' | 'events'>[] = [
  {
    name: 'url',
    label: 'URL',
    kind: 'code',
    hint: 'A public https address. Each event is a POST request with JSON.',
    placeholder: 'https://your-server.example/webhook',
    isRequired: true,
  },
  {
    name: 'description',
    label: 'Description',
    hint: 'Its name in lists, such as Billing. Optional.',
  },
  {
    name: 'format',
    label: 'Format',
    kind: 'choice',
    hint: 'For code written for another provider. Its format does not have all events.',
    options: Object.entries(FORMAT_TEXTS).map(([value, label]) => ({ value, label })),
  },
  { name: 'events', label: 'Events', render: (input) => <Events {...input} /> },
]

const Events = ({ value, error, isReadOnly, set }: Input) => (
  <>
    <Checkbox.Group label="Events" value={value as string[]} onChange={set} error={error}>
      <Stack gap="sm" mt={4}>
        {!isReadOnly && (
          <Group gap="xs">
            <Button size="compact-sm" variant="default" onClick={() => set(EVENT_NAMES)}>
              All
            </Button>
            <Button size="compact-sm" variant="default" onClick={() => set([])}>
              None
            </Button>
            <Text size="sm" role="status">
              {(value as readonly string[]).length} of {EVENT_NAMES.length} chosen
            </Text>
          </Group>
        )}
        <div className="event-groups">
          {EVENT_GROUPS.map(({ label, events }) => (
            <Stack key={label} gap={8} role="group" aria-label={label}>
              <Text size="xs" c="dimmed" fw={500}>
                {label}
              </Text>
              {events.map((name) => (
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
        </div>
      </Stack>
    </Checkbox.Group>
    <Anchor href="/docs" underline="always">
      What each event contains
    </Anchor>
  </>
)
