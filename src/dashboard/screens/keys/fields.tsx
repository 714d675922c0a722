/** @module The fields of an API key: name, scopes, and what restricts it. */
import { Alert, Button, Checkbox, Code, Fieldset, Group, SimpleGrid, Stack, Text, TextInput } from '@mantine/core'
import type { ApiKey, UpdateApiKeyRequest } from '#client/api.ts'
import { bindText, FormError, findFieldError } from '../../parts/form.tsx'
import { toLocalMinute } from '../../parts/format.ts'
import { ADMIN_SCOPE, findPreset, SCOPE_GROUPS, SCOPE_PRESETS, SCOPE_TEXTS } from '../../parts/scopes.ts'

export interface KeyInput {
  readonly name: string
  readonly scopes: readonly string[]
  /** Local time, as an input of this type has it; empty: never. */
  readonly expiresAt: string
  /** Separated by commas or spaces; empty: no restriction. */
  readonly domains: string
  readonly networks: string
}

export const NEW_KEY: KeyInput = {
  name: '',
  scopes: SCOPE_PRESETS[0]?.scopes ?? [],
  expiresAt: '',
  domains: '',
  networks: '',
}

export const toKeyInput = ({ name, scopes, expires_at: expiresAt, domains, networks }: ApiKey): KeyInput => ({
  name,
  scopes,
  expiresAt: expiresAt === null ? '' : toLocalMinute(new Date(expiresAt)),
  domains: domains?.join(', ') ?? '',
  networks: networks?.join(', ') ?? '',
})

/** The fields that differ: an unchanged time of expiry may be past, and is more exact than its field. */
export function toKeyPatch(
  before: KeyInput,
  { name, scopes, expiresAt, domains, networks }: KeyInput,
): UpdateApiKeyRequest {
  return {
    ...(name.trim() !== before.name && { name: name.trim() }),
    ...(scopes !== before.scopes && { scopes: [...scopes] }),
    ...(expiresAt !== before.expiresAt && {
      expires_at: expiresAt === '' ? null : new Date(expiresAt).toISOString(),
    }),
    ...(domains !== before.domains && { domains: splitWords(domains) }),
    ...(networks !== before.networks && { networks: splitWords(networks) }),
  }
}

function splitWords(text: string): string[] | null {
  const words = text.split(/[\s,]+/).filter((word) => word !== '')
  return words.length === 0 ? null : words
}

export const isComplete = ({ name, scopes }: KeyInput): boolean => name.trim() !== '' && scopes.length > 0

interface KeyFieldsProps {
  readonly input: KeyInput
  readonly error: unknown
  readonly isChecked: boolean
  onChange(input: KeyInput): void
}

export function KeyFields({ input, error, isChecked, onChange }: KeyFieldsProps) {
  const isNameMissing = isChecked && input.name.trim() === ''
  const nameError = isNameMissing ? 'Enter a name, such as "web shop".' : findFieldError(error, 'name')
  return (
    <>
      <TextInput
        w="100%"
        maw={480}
        label="Name"
        description="What the key is for, so that you recognise it later."
        placeholder="web shop"
        {...bindText(input.name, (value) => onChange({ ...input, name: value }))}
        error={nameError}
        maxLength={200}
        autoComplete="off"
        required
        autoFocus
      />
      <ScopeChoice scopes={input.scopes} onChange={(scopes) => onChange({ ...input, scopes })} />
      <LimitFields input={input} error={error} onChange={onChange} />
      {isChecked && input.scopes.length === 0 && (
        <Alert color="red" role="alert">
          Choose at least one scope.
        </Alert>
      )}
      {input.scopes.includes(ADMIN_SCOPE) && (
        <Alert color="yellow" title="This key can do everything">
          It can also create keys and delete the account. An application that sends mail needs "Send only".
        </Alert>
      )}
      <FormError error={error} fields={['name', ...LIMITS.map(({ name }) => name)]} />
    </>
  )
}

/** What restricts a key: where its value is in the form and in `/v1`, and what it says. */
const LIMITS = [
  { key: 'expiresAt', name: 'expires_at', label: 'Expires', description: 'Empty: never.', type: 'datetime-local' },
  {
    key: 'domains',
    name: 'domains',
    label: 'Sends from',
    description: 'Domains. Empty: all of the account.',
    placeholder: 'shop.example.com',
  },
  {
    key: 'networks',
    name: 'networks',
    label: 'May be used from',
    description: 'Addresses or networks. Empty: any.',
    placeholder: '192.0.2.0/24',
  },
] as const

const LimitFields = ({ input, error, onChange }: Omit<KeyFieldsProps, 'isChecked'>) => (
  <Fieldset legend="Where and how long it works" w="100%" maw={1000}>
    <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="md">
      {LIMITS.map(({ key, name, ...texts }) => (
        <TextInput
          key={key}
          {...texts}
          {...bindText(input[key], (value) => onChange({ ...input, [key]: value }))}
          error={findFieldError(error, name)}
          autoComplete="off"
        />
      ))}
    </SimpleGrid>
  </Fieldset>
)

interface ScopeChoiceProps {
  readonly scopes: readonly string[]
  onChange(scopes: readonly string[]): void
}

function ScopeChoice({ scopes, onChange }: ScopeChoiceProps) {
  const current = findPreset(scopes)
  return (
    <Fieldset legend="What it may do" w="100%" maw={1000}>
      <Stack gap="md">
        <Group gap="xs" role="group" aria-label="Common choices">
          {SCOPE_PRESETS.map((preset) => (
            <Button
              key={preset.label}
              size="xs"
              variant={preset === current ? 'filled' : 'default'}
              aria-pressed={preset === current}
              onClick={() => onChange(preset.scopes)}
            >
              {preset.label}
            </Button>
          ))}
        </Group>
        <Checkbox.Group value={[...scopes]} onChange={(next) => onChange(next)} aria-label="Scopes">
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
      </Stack>
    </Fieldset>
  )
}
