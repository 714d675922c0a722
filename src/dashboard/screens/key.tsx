/** @module One API key: what it may do, when it was used, how to change and how to revoke it. */
import { Alert, Button, Code, Group, List, Stack, Text } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { ApiKey, UpdateApiKeyRequest } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { DeleteButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import { TextLink } from '../parts/links.tsx'
import { EmptyState, Facts, Page, QueryView, Section, useEscape, useSay } from '../parts/page.tsx'
import { ADMIN_SCOPE, describeScope } from '../parts/scopes.ts'
import { StatusLabel } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { KEY_FIELDS, KeyLayout } from './keys/fields.tsx'

export default function ApiKeyScreen() {
  const { id } = useParams({ from: '/keys/$id' })
  const reason = useAllowed('admin')
  const query = useData(read.apiKeys.list(), { enabled: reason === undefined })
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/keys' }))
  const key = query.data?.find((one) => one.id === id)
  return (
    <Page title={key?.name ?? 'API key'} action={key && <RevokeButton apiKey={key} />}>
      {reason !== undefined ? (
        <Alert color="gray">{reason}</Alert>
      ) : (
        <QueryView query={query}>{() => (key ? <KeyDetails apiKey={key} /> : <Missing />)}</QueryView>
      )}
    </Page>
  )
}

const Missing = () => (
  <EmptyState title="There is no such key">
    <Text>It was revoked, or belongs to another account.</Text>
    <TextLink to="/keys">All API keys</TextLink>
  </EmptyState>
)

interface KeyProps {
  readonly apiKey: ApiKey
}

const KeyDetails = ({ apiKey: key }: KeyProps) => (
  <Stack gap="lg">
    <Facts
      facts={[
        [
          'State',
          <StatusLabel key="state" tone={key.is_active ? 'good' : 'bad'}>
            {key.is_active ? 'Active' : 'Expired'}
          </StatusLabel>,
        ],
        ['Begins with', <Code key="prefix">{key.key_prefix}…</Code>],
        ['Last use', key.last_used_at === null ? 'Never' : <Time key="used" iso={key.last_used_at} />],
        ['Created', <Time key="created" iso={key.created_at} />],
        ['Expires', key.expires_at === null ? 'Never' : <Time key="expires" iso={key.expires_at} />],
        ['Sends from', key.domains === null ? 'All domains of the account' : key.domains.join(', ')],
        ['May be used from', key.networks === null ? 'Any address' : key.networks.join(', ')],
      ]}
    />
    <Section title="It may">
      <List size="sm" spacing={4}>
        {(key.scopes.includes(ADMIN_SCOPE) ? [ADMIN_SCOPE] : key.scopes).map((scope) => (
          <List.Item key={scope}>
            {describeScope(scope)} (<Code>{scope}</Code>)
          </List.Item>
        ))}
      </List>
      <Text size="sm" maw={640}>
        To replace a key, create another one, put it in your application, and revoke this one once its last use no
        longer changes.
      </Text>
    </Section>
    <KeySettings key={key.id} apiKey={key} />
  </Stack>
)

/** Changes name, scopes and restrictions; the key itself stays. */
function KeySettings({ apiKey: key }: KeyProps) {
  const [isOpen, setIsOpen] = useState(false)
  const say = useSay()
  if (!isOpen)
    return (
      <Group>
        <Button variant="default" onClick={() => setIsOpen(true)}>
          Change this key
        </Button>
      </Group>
    )
  const close = () => setIsOpen(false)
  return (
    <Section title="Change this key">
      <Text size="sm" maw={640}>
        The key itself stays the same: applications go on with it, and what you change counts from their next request.
      </Text>
      <FieldForm
        maw={1000}
        isFocused
        fields={KEY_FIELDS}
        layout={KeyLayout}
        stored={key}
        refreshes={['apiKeys']}
        run={(body: UpdateApiKeyRequest) => api.apiKeys.update(key.id, body)}
        onDone={() => {
          say('The key was changed.')
          close()
        }}
        actions={
          <Button variant="default" onClick={close}>
            Discard the changes
          </Button>
        }
      />
    </Section>
  )
}

const RevokeButton = ({ apiKey: key }: KeyProps) => (
  <DeleteButton
    label="Revoke this key"
    needs="admin"
    title="Revoke this key?"
    confirm="Revoke the key"
    remove={() => api.apiKeys.delete(key.id)}
    refreshes={['apiKeys']}
    leadsTo={{ to: '/keys' }}
  >
    <Text>
      Requests with <bdi>{key.name}</bdi> (<Code>{key.key_prefix}…</Code>) fail with 401 immediately. This cannot be
      undone.
    </Text>
    <Text fw={600}>
      {key.last_used_at === null ? (
        'It has never been used.'
      ) : (
        <>
          It was last used: <Time iso={key.last_used_at} />.
        </>
      )}
    </Text>
  </DeleteButton>
)
