/** @module The fields of an API key: name, scopes, and what restricts it. */
import { Alert, Button, Checkbox, Code, Fieldset, Group, Input, SimpleGrid, Stack, Text } from '@mantine/core'
import type { Field, Input as FieldState } from '../../parts/fields.ts'
import { ADMIN_SCOPE, findPreset, SCOPE_GROUPS, SCOPE_PRESETS, SCOPE_TEXTS } from '../../parts/scopes.ts'
import type { FormState } from '../../parts/use-form.tsx'

type KeyField = Field<'name' | 'scopes' | 'expires_at' | 'domains' | 'networks'>

const LIMITS: readonly KeyField[] = [
  { name: 'expires_at', label: 'Expires', kind: 'time', hint: 'Empty: never.' },
  {
    name: 'domains',
    label: 'Sends from',
    kind: 'words',
    hint: 'Domains. Empty: all of the account.',
    placeholder: 'shop.example.com',
  },
  {
    name: 'networks',
    label: 'May be used from',
    kind: 'words',
    hint: 'Addresses or networks. Empty: any.',
    placeholder: '192.0.2.0/24',
  },
]

const GRANTS: readonly KeyField[] = [
  {
    name: 'name',
    label: 'Name',
    hint: 'What the key is for, so that you recognise it later.',
    placeholder: 'web shop',
    isRequired: true,
  },
  { name: 'scopes', label: 'Scopes', render: (input) => <ScopeChoice {...input} /> },
]

export const KEY_FIELDS = [...GRANTS, ...LIMITS]

export const KeyLayout = ({ show }: FormState) => (
  <>
    {show(GRANTS)}
    <Fieldset legend="Where and how long it works" w="100%">
      <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="md">
        {show(LIMITS)}
      </SimpleGrid>
    </Fieldset>
  </>
)

function ScopeChoice({ value, error, set }: FieldState) {
  const scopes = value as readonly string[]
  const current = findPreset(scopes)
  return (
    <Fieldset legend="What it may do" w="100%">
      <Stack gap="md">
        <Group gap="xs" role="group" aria-label="Common choices">
          {SCOPE_PRESETS.map((preset) => (
            <Button
              key={preset.label}
              size="xs"
              variant={preset === current ? 'filled' : 'default'}
              aria-pressed={preset === current}
              onClick={() => set(preset.scopes)}
            >
              {preset.label}
            </Button>
          ))}
        </Group>
        <Checkbox.Group value={[...scopes]} onChange={set} aria-label="Scopes">
          <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="md">
            {SCOPE_GROUPS.map(({ label, scopes: group }) => (
              <Stack key={label} gap={6} role="group" aria-label={label}>
                <Text size="sm" fw={600}>
                  {label}
                </Text>
                {group.map((scope) => (
                  <Checkbox key={scope} value={scope} label={<Code>{scope}</Code>} description={SCOPE_TEXTS[scope]} />
                ))}
              </Stack>
            ))}
          </SimpleGrid>
        </Checkbox.Group>
        <Input.Error>{error}</Input.Error>
        {scopes.includes(ADMIN_SCOPE) && (
          <Alert color="yellow" title="This key can do everything">
            It can also create keys and delete the account. An application that sends mail needs "Send only".
          </Alert>
        )}
      </Stack>
    </Fieldset>
  )
}
