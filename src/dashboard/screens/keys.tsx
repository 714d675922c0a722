/** @module The list of API keys. */
import { Code } from '@mantine/core'
import type { ApiKey } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { NameLink } from '../parts/links.tsx'
import { ActionLink } from '../parts/list.tsx'
import { Notice } from '../parts/notice.tsx'
import { EmptyState, Page, QueryView } from '../parts/page.tsx'
import { summariseScopes } from '../parts/scopes.ts'
import { type Column, DataTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { KeyStatus } from './key.tsx'

const COLUMNS: readonly Column<ApiKey>[] = [
  {
    header: 'Name',
    width: '24%',
    cell: ({ id, name }) => <NameLink to="/keys/$id" params={{ id }} name={name} title={name} />,
  },
  { header: 'Key', phone: 'none', cell: ({ key_prefix: prefix }) => <Code>{prefix}…</Code> },
  { header: 'Access', phone: 'bare', cell: ({ scopes }) => summariseScopes(scopes) },
  { header: 'Domain', phone: 'none', cell: ({ domains }) => domains?.join(', ') ?? 'All' },
  { header: 'Status', width: '11%', phone: 'aside', cell: (key) => <KeyStatus apiKey={key} /> },
  {
    header: 'Last use',
    width: '13%',
    cell: ({ last_used_at: at }) => (at === null ? 'Never' : <Time iso={at} />),
  },
]

export default function ApiKeysScreen() {
  const reason = useAllowed('admin')
  const query = useData(read.apiKeys.list(), { enabled: reason === undefined })
  const create = (
    <ActionLink needs="admin" to="/keys/new">
      Create a key
    </ActionLink>
  )
  return (
    <Page title="API keys" action={query.data?.length === 0 ? undefined : create}>
      {reason !== undefined ? (
        <Notice>{reason} Ask an administrator of the account for a key.</Notice>
      ) : (
        <QueryView query={query}>
          {(keys) =>
            keys.length === 0 ? (
              <EmptyState
                title="Your API keys will appear here"
                text="An application names its key in each request. Give each one a key of its own, so that you can delete it alone."
                command="tassis keys create --name app"
              >
                {create}
              </EmptyState>
            ) : (
              <DataTable label="API keys, newest first" columns={COLUMNS} rows={keys} />
            )
          }
        </QueryView>
      )}
    </Page>
  )
}
