/** @module All accounts of the service. */
import { NativeSelect, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { OperatorAccountSummary } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { bindText } from '../../parts/form.tsx'
import { formatCount, toOptions } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { EmptyState } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { type Column, SearchForm } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { ACCOUNT_STATES, type AccountState } from './filters.ts'
import { ServerList } from './frame.tsx'
import { useList } from './queries.ts'

const route = getRouteApi('/server/accounts')

const STATE_WORDS: Readonly<Record<AccountState, string>> = { active: 'Active', paused: 'Paused', disabled: 'Disabled' }

export const AccountBadge = ({
  account: { paused_at: pausedAt, disabled_at: disabledAt },
}: {
  readonly account: Pick<OperatorAccountSummary, 'paused_at' | 'disabled_at'>
}) =>
  pausedAt !== null ? (
    <StatusLabel tone="bad">Paused</StatusLabel>
  ) : disabledAt !== null ? (
    <StatusLabel tone="neutral">Disabled</StatusLabel>
  ) : (
    <StatusLabel tone="good">Active</StatusLabel>
  )

export const formatQuota = ({
  used_this_month: used,
  monthly_quota: quota,
}: Pick<OperatorAccountSummary, 'used_this_month' | 'monthly_quota'>): string =>
  `${used.toLocaleString()} of ${quota === null ? 'unlimited' : quota.toLocaleString()}`

const COLUMNS: readonly Column<OperatorAccountSummary>[] = [
  {
    header: 'Account',
    cell: ({ id, name }) => <NameLink to="/server/accounts/$id" id={id} name={name || '(no name)'} />,
  },
  { header: 'Owner', cell: ({ email }) => <bdi>{email}</bdi> },
  {
    header: 'Plan',
    width: '14%',
    cell: ({ plan, parent_account_id: parent }) => (parent === null ? plan : 'Sub-account'),
  },
  { header: 'Recipients this month', width: '18%', cell: formatQuota },
  { header: 'State', width: '15%', cell: (account) => <AccountBadge account={account} /> },
  { header: 'Created', width: '15%', cell: ({ created_at: at }) => <Time iso={at} /> },
]

export default function AccountsScreen() {
  const filters = route.useSearch()
  const { q, state } = filters
  const query = useList(read.operator.listAccounts(filters))
  const navigate = route.useNavigate()
  const search = (next: { q?: string | undefined; state?: AccountState | undefined }) =>
    void navigate({ search: { ...(next.q && { q: next.q }), ...(next.state && { state: next.state }) } })
  return (
    <ServerList
      title="Accounts"
      query={query}
      label="Accounts, newest first"
      columns={COLUMNS}
      toKey={({ id }) => id}
      path="/server/accounts"
      search={filters}
      empty={
        <EmptyState title="No account matches" {...(!q && !state && { command: 'tassis accounts create --help' })}>
          <Text>Search for a part of the name or of the owner’s address, or for the whole id.</Text>
        </EmptyState>
      }
      summary={
        <Text size="sm" c="dimmed">
          {formatCount(query.data?.pagination.total ?? 0, 'account')}
        </Text>
      }
      filters={
        <SearchForm
          label="Name, address or id"
          placeholder="acme"
          value={q}
          onSearch={(text) => search({ q: text, state })}
        >
          <NativeSelect
            label="State"
            {...bindText(state ?? '', (value) => search({ q, state: ACCOUNT_STATES.find((known) => known === value) }))}
            data={toOptions(ACCOUNT_STATES, (value) => STATE_WORDS[value], 'Any')}
          />
        </SearchForm>
      }
    />
  )
}
