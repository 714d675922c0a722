/** @module Creates an API key and shows it once. */
import { Alert, Code, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { CreateApiKeyResult } from '#client/api.ts'
import { api } from '../api/client.ts'
import { useChange } from '../api/data.ts'
import { useAllowed, useSession } from '../api/session.tsx'
import { Copy } from '../parts/copy.tsx'
import { Form, SubmitButton } from '../parts/form.tsx'
import { TextLink } from '../parts/links.tsx'
import { CommandBlock, Page } from '../parts/page.tsx'
import { summariseScopes } from '../parts/scopes.ts'
import { useExampleDomain } from './domains/queries.ts'
import { toExampleCommand } from './keys/example.ts'
import { isComplete, KeyFields, NEW_KEY, toKeyPatch } from './keys/fields.tsx'

export default function ApiKeyNewScreen() {
  const [created, setCreated] = useState<CreateApiKeyResult>()
  return created ? <CreatedKey apiKey={created} /> : <NewKeyForm onCreated={setCreated} />
}

function NewKeyForm({ onCreated }: { onCreated(key: CreateApiKeyResult): void }) {
  const [input, setInput] = useState(NEW_KEY)
  const [isChecked, setIsChecked] = useState(false)
  const create = useChange(api.apiKeys.create, 'apiKeys')
  const reason = useAllowed('admin')
  const submit = () => {
    setIsChecked(true)
    if (!isComplete(input) || reason !== undefined || create.isPending) return
    const { name, scopes } = input
    create.mutate(
      { ...toKeyPatch(NEW_KEY, input), name: name.trim(), scopes: [...scopes] },
      { onSuccess: ({ data }) => onCreated(data) },
    )
  }
  return (
    <Page title="Create an API key">
      <Form onSubmit={submit} align="flex-start">
        {reason !== undefined && <Alert color="gray">{reason}</Alert>}
        <KeyFields input={input} error={create.error} isChecked={isChecked} onChange={setInput} />
        <Group>
          <SubmitButton reason={reason} loading={create.isPending}>
            Create the key
          </SubmitButton>
          <TextLink to="/keys">Cancel</TextLink>
        </Group>
      </Form>
    </Page>
  )
}

function CreatedKey({ apiKey }: { readonly apiKey: CreateApiKeyResult }) {
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
        <TextLink to="/keys">I have copied it</TextLink>
      </Stack>
    </Page>
  )
}
