/** @module One API key: when it was used, what it may do, how to change and how to delete it. */
import { Code, Stack, Text } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import type { ApiKey, UpdateApiKeyRequest } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { DeleteButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import { Notice } from '../parts/notice.tsx'
import { EmptyState, Facts, Page, QueryView, Section, useEscape } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { KEY_FIELDS, KeyLayout } from './keys/fields.tsx'

export const KeyStatus = ({ apiKey: { is_active: isActive } }: KeyProps) => (
  <StatusLabel tone={isActive ? 'good' : 'bad'}>{isActive ? 'Active' : 'Expired'}</StatusLabel>
)

export default function ApiKeyScreen() {
  const { id } = useParams({ from: '/keys/$id' })
  const reason = useAllowed('admin')
  const query = useData(read.apiKeys.list(), { enabled: reason === undefined })
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/keys' }))
  const key = query.data?.find((one) => one.id === id)
  return (
    <Page
      title={key?.name ?? 'API key'}
      back={{ label: 'API keys', target: { to: '/keys' } }}
      status={key && <KeyStatus apiKey={key} />}
    >
      {reason !== undefined ? (
        <Notice>{reason}</Notice>
      ) : (
        <QueryView query={query}>
          {() =>
            key ? (
              <KeyDetails key={key.id} apiKey={key} />
            ) : (
              <EmptyState title="Not found" text="It may have been deleted, or belong to another account." />
            )
          }
        </QueryView>
      )}
    </Page>
  )
}

interface KeyProps {
  readonly apiKey: ApiKey
}

const KeyDetails = ({ apiKey: key }: KeyProps) => (
  <Stack gap="lg">
    <Facts
      facts={[
        ['Begins with', <Code key="prefix">{key.key_prefix}…</Code>],
        ['Last use', key.last_used_at === null ? 'Never' : <Time key="used" iso={key.last_used_at} isRelative />],
        ['Created', <Time key="created" iso={key.created_at} />],
      ]}
    />
    <Section
      title="Settings"
      description="They count from the next request. To replace a key, create another one, and delete this one once it is no longer used."
    >
      <FieldForm
        maw={640}
        aria-label="Settings"
        fields={KEY_FIELDS}
        layout={KeyLayout}
        stored={key}
        refreshes={['apiKeys']}
        run={(body: UpdateApiKeyRequest) => api.apiKeys.update(key.id, body)}
      />
    </Section>
    <Section
      title="Delete"
      description="Requests with this key fail immediately."
      action={<DeleteKey apiKey={key} />}
    />
  </Stack>
)

const DeleteKey = ({ apiKey: key }: KeyProps) => (
  <DeleteButton
    label="Delete this key"
    needs="admin"
    noun="key"
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
          Last use: <Time iso={key.last_used_at} isRelative />.
        </>
      )}
    </Text>
  </DeleteButton>
)
