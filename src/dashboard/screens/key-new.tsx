/** @module Creates an API key and shows it once. */
import {
  Alert,
  Anchor,
  Button,
  Checkbox,
  Code,
  Fieldset,
  Group,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import type { CreatedApiKey } from '#features/setup/api-keys/model.ts'
import { useExampleDomain } from '../api/domains.ts'
import { useCreateApiKey } from '../api/keys.ts'
import { useAllowed, useSession } from '../api/session.tsx'
import { ActionButton } from '../parts/action.tsx'
import { Copy } from '../parts/copy.tsx'
import { findFieldError } from '../parts/field-error.ts'
import { FormError } from '../parts/form-error.tsx'
import { Page } from '../parts/page.tsx'
import { ADMIN_SCOPE, findPreset, SCOPE_GROUPS, SCOPE_PRESETS, SCOPE_TEXTS, summariseScopes } from '../parts/scopes.ts'
import { CommandBlock } from '../parts/states.tsx'
import { toExampleCommand } from './keys/example.ts'

export function ApiKeyNewScreen() {
  const [created, setCreated] = useState<CreatedApiKey>()
  return created ? <CreatedKey apiKey={created} /> : <NewKeyForm onCreated={setCreated} />
}

function NewKeyForm({ onCreated }: { onCreated(key: CreatedApiKey): void }) {
  const [name, setName] = useState('')
  const [scopes, setScopes] = useState<readonly string[]>(SCOPE_PRESETS[0]?.scopes ?? [])
  const [isChecked, setIsChecked] = useState(false)
  const create = useCreateApiKey()
  const reason = useAllowed('admin')
  const submit = () => {
    setIsChecked(true)
    if (name.trim() === '' || scopes.length === 0 || reason !== undefined || create.isPending) return
    create.mutate({ name: name.trim(), scopes: [...scopes] }, { onSuccess: onCreated })
  }
  const isNameMissing = isChecked && name.trim() === ''
  const nameError = isNameMissing ? 'Enter a name, such as "web shop".' : findFieldError(create.error, 'name')
  return (
    <Page title="Create an API key">
      <form
        onSubmit={(event: FormEvent) => {
          event.preventDefault()
          submit()
        }}
        noValidate
      >
        <Stack align="flex-start">
          {reason !== undefined && <Alert color="gray">{reason}</Alert>}
          <TextInput
            w="100%"
            maw={480}
            label="Name"
            description="What the key is for, so that you recognise it later."
            placeholder="web shop"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={nameError}
            maxLength={200}
            autoComplete="off"
            required
            autoFocus
          />
          <ScopeChoice scopes={scopes} onChange={setScopes} />
          {isChecked && scopes.length === 0 && (
            <Alert color="red" role="alert">
              Choose at least one scope.
            </Alert>
          )}
          {scopes.includes(ADMIN_SCOPE) && (
            <Alert color="yellow" title="This key can do everything">
              It can also create keys and delete the account. An application that sends mail needs "Send only".
            </Alert>
          )}
          {nameError === undefined && <FormError error={create.error} />}
          <Group>
            {reason === undefined ? (
              <Button type="submit" loading={create.isPending}>
                Create the key
              </Button>
            ) : (
              <ActionButton reason={reason} onClick={() => undefined}>
                Create the key
              </ActionButton>
            )}
            <Anchor component={Link} to="/keys">
              Cancel
            </Anchor>
          </Group>
        </Stack>
      </form>
    </Page>
  )
}

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

function CreatedKey({ apiKey }: { readonly apiKey: CreatedApiKey }) {
  const { user } = useSession()
  const domain = useExampleDomain()?.domain
  const { key, name, scopes } = apiKey
  const command = toExampleCommand({ origin: location.origin, key, scopes, domain, to: user.email })
  return (
    <Page title="Your new API key">
      <Stack align="flex-start" maw={800}>
        <Alert color="yellow" title="Copy it now" role="alert" w="100%">
          Only now is this key shown. Not even the server stores it: if you lose it, create another one.
        </Alert>
        <Group gap="xs" maw="100%">
          <Code fz="md" p="xs" data-secret>
            {key}
          </Code>
          <Copy value={key} what="the API key" />
        </Group>
        <Text size="sm">
          <bdi>{name}</bdi>: {summariseScopes(scopes)}
        </Text>
        {command !== undefined && (
          <>
            <Text>Try it:</Text>
            <CommandBlock command={command} />
          </>
        )}
        <Anchor component={Link} to="/keys">
          I have copied it
        </Anchor>
      </Stack>
    </Page>
  )
}
