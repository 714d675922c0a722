/** @module Creates an API key and shows it once. */
import { Code, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { CreateApiKeyResult } from '#client/api.ts'
import { api } from '../api/client.ts'
import { useSession } from '../api/session.tsx'
import { toSendCommand } from '../parts/commands.ts'
import { Copy } from '../parts/copy.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import { ButtonLink } from '../parts/links.tsx'
import { Notice } from '../parts/notice.tsx'
import { CommandBlock, Page } from '../parts/page.tsx'
import { ADMIN_SCOPE, SCOPE_PRESETS, summariseScopes } from '../parts/scopes.ts'
import { useExampleDomain } from './domains/queries.ts'
import { KEY_FIELDS, KeyLayout } from './keys/fields.tsx'

export default function ApiKeyNewScreen() {
  const [created, setCreated] = useState<CreateApiKeyResult>()
  if (created) return <CreatedKey apiKey={created} />
  return (
    <Page title="Create an API key" back={{ label: 'API keys', target: { to: '/keys' } }}>
      <FieldForm
        maw={640}
        needs="admin"
        label="Create the key"
        isFocused
        fields={KEY_FIELDS}
        layout={KeyLayout}
        initial={{ scopes: SCOPE_PRESETS[0]?.scopes }}
        refreshes={['apiKeys']}
        run={api.apiKeys.create}
        onDone={({ data }) => setCreated(data)}
      />
    </Page>
  )
}

function CreatedKey({ apiKey }: { readonly apiKey: CreateApiKeyResult }) {
  const { user } = useSession()
  const domain = useExampleDomain()?.domain
  const { key, name, scopes } = apiKey
  const canSend = scopes.includes('emails:send') || scopes.includes(ADMIN_SCOPE)
  return (
    <Page title="Your new API key">
      <Stack align="flex-start" maw={800}>
        <Notice tone="warning" title="Copy it now" isUrgent>
          It is shown only now. If you lose it, create another one.
        </Notice>
        <Group gap="xs" maw="100%">
          <Code fz="md" p="xs" data-secret>
            {key}
          </Code>
          <Copy value={key} what="the API key" />
        </Group>
        <Text>
          <bdi>{name}</bdi>: {summariseScopes(scopes)}.
        </Text>
        {canSend && (
          <>
            <Text>Try it:</Text>
            <CommandBlock command={toSendCommand(domain, user.email, key)} />
          </>
        )}
        <ButtonLink to="/keys">I have copied it</ButtonLink>
      </Stack>
    </Page>
  )
}
