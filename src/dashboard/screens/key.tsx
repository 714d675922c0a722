/** @module One API key: what it may do, when it was used, and how to revoke it. */
import { Alert, Anchor, Code, List, Stack, Text, Title } from '@mantine/core'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { ApiKeyRecord } from '#features/setup/api-keys/model.ts'
import { useApiKeys, useRevokeApiKey } from '../api/keys.ts'
import { useAllowed } from '../api/session.tsx'
import { ActionButton } from '../parts/action.tsx'
import { DialogFrame } from '../parts/dialog.tsx'
import { Facts } from '../parts/facts.tsx'
import { Page } from '../parts/page.tsx'
import { ADMIN_SCOPE, describeScope } from '../parts/scopes.ts'
import { EmptyState, QueryView } from '../parts/states.tsx'
import { StatusLabel } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { useEscape } from '../parts/use-escape.ts'

export function ApiKeyScreen() {
  const { id } = useParams({ from: '/keys/$id' })
  const reason = useAllowed('admin')
  const query = useApiKeys(reason === undefined)
  const navigate = useNavigate()
  const [isRevoking, setIsRevoking] = useState(false)
  useEscape(() => void navigate({ to: '/keys' }))
  const key = query.data?.find((one) => one.id === id)
  const revoke = key && (
    <ActionButton reason={reason} variant="default" onClick={() => setIsRevoking(true)}>
      Revoke this key
    </ActionButton>
  )
  return (
    <Page title={key?.name ?? 'API key'} action={revoke}>
      {reason !== undefined ? (
        <Alert color="gray">{reason}</Alert>
      ) : (
        <QueryView query={query}>{() => (key ? <KeyDetails apiKey={key} /> : <Missing />)}</QueryView>
      )}
      {isRevoking && key && <RevokeDialog apiKey={key} onClose={() => setIsRevoking(false)} />}
    </Page>
  )
}

const Missing = () => (
  <EmptyState title="There is no such key">
    <Text>It was revoked, or belongs to another account.</Text>
    <Anchor component={Link} to="/keys">
      All API keys
    </Anchor>
  </EmptyState>
)

interface KeyProps {
  readonly apiKey: ApiKeyRecord
}

const KeyDetails = ({ apiKey: key }: KeyProps) => (
  <Stack gap="lg">
    <Facts
      facts={[
        [
          'State',
          <StatusLabel key="state" tone="good">
            Active
          </StatusLabel>,
        ],
        ['Begins with', <Code key="prefix">{key.key_prefix}…</Code>],
        ['Last use', key.last_used_at === null ? 'Never' : <Time key="used" iso={key.last_used_at} isExact />],
        ['Created', <Time key="created" iso={key.created_at} isExact />],
      ]}
    />
    <Stack component="section" aria-labelledby="scopes" gap="sm">
      <Title order={2} size="h4" id="scopes">
        It may
      </Title>
      <List size="sm" spacing={4}>
        {(key.scopes.includes(ADMIN_SCOPE) ? [ADMIN_SCOPE] : key.scopes).map((scope) => (
          <List.Item key={scope}>
            {describeScope(scope)} (<Code>{scope}</Code>)
          </List.Item>
        ))}
      </List>
      <Text size="sm" maw={640}>
        The scopes of a key cannot be changed. To change them, create another key, put it in your application, and
        revoke this one once its last use no longer changes.
      </Text>
    </Stack>
  </Stack>
)

interface RevokeProps extends KeyProps {
  onClose(): void
}

function RevokeDialog({ apiKey: key, onClose }: RevokeProps) {
  const revoke = useRevokeApiKey()
  const navigate = useNavigate()
  return (
    <DialogFrame
      title="Revoke this key?"
      confirm="Revoke the key"
      isDangerous
      isBusy={revoke.isPending}
      error={revoke.error}
      onConfirm={() => revoke.mutate(key.id, { onSuccess: () => navigate({ to: '/keys' }) })}
      onClose={onClose}
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
            It was last used: <Time iso={key.last_used_at} isExact />.
          </>
        )}
      </Text>
    </DialogFrame>
  )
}
