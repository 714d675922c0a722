/** @module The list of API keys. */
import { Alert, Code, Stack, Text } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { ApiKey } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { ActionButton } from '../parts/buttons.tsx'
import { NameLink } from '../parts/links.tsx'
import { EmptyState, Page, QueryView } from '../parts/page.tsx'
import { summariseScopes } from '../parts/scopes.ts'
import { StatusLabel } from '../parts/status.tsx'
import { type Column, DataTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'

const COLUMNS: readonly Column<ApiKey>[] = [
  {
    header: 'Name',
    width: '30%',
    cell: ({ id, name, key_prefix: prefix }) => (
      <Stack gap={2} align="flex-start">
        <NameLink to="/keys/$id" params={{ id }} name={name} title={name} />
        <Code>{prefix}…</Code>
      </Stack>
    ),
  },
  { header: 'Scopes', cell: ({ scopes }) => summariseScopes(scopes) },
  {
    header: 'State',
    width: '17%',
    cell: ({ is_active: isActive }) => (
      <StatusLabel tone={isActive ? 'good' : 'bad'}>{isActive ? 'Active' : 'Expired'}</StatusLabel>
    ),
  },
  {
    header: 'Last use',
    width: '17%',
    cell: ({ last_used_at: at }) => (at === null ? 'Never' : <Time iso={at} />),
  },
  { header: 'Created', width: '17%', cell: ({ created_at: at }) => <Time iso={at} /> },
]

export default function ApiKeysScreen() {
  const reason = useAllowed('admin')
  const query = useData(read.apiKeys.list(), { enabled: reason === undefined })
  const navigate = useNavigate()
  const create = (
    <ActionButton reason={reason} onClick={() => navigate({ to: '/keys/new' })}>
      Create a key
    </ActionButton>
  )
  const isEmpty = query.data?.length === 0
  return (
    <Page title="API keys" action={isEmpty ? undefined : create}>
      {reason !== undefined ? (
        <Alert color="gray">{reason} Ask an administrator of the account for a key.</Alert>
      ) : (
        <QueryView query={query}>
          {(keys) =>
            keys.length === 0 ? (
              <EmptyState
                title="Your API keys will appear here"
                text="Your application authenticates with a key in each request. A key can do what its scopes allow and nothing more; give each application one of its own, so that you can revoke it alone."
              >
                {create}
                <Text size="sm">
                  On the server: <Code>tassis keys create --name app</Code>
                </Text>
              </EmptyState>
            ) : (
              <DataTable label="API keys, newest first" columns={COLUMNS} rows={keys} toKey={({ id }) => id} />
            )
          }
        </QueryView>
      )}
    </Page>
  )
}
