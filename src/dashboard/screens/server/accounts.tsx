/** @module All accounts of the service. */
import type { OperatorAccountSummary } from '#client/operator-api.ts'
import { read } from '../../api/client.ts'
import { NameLink } from '../../parts/links.tsx'
import { EmptyState } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { ACCOUNT_FILTERS } from '../filters.ts'
import { ServerList } from './frame.tsx'

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
  quota === null ? used.toLocaleString() : `${used.toLocaleString()} of ${quota.toLocaleString()}`

const COLUMNS: readonly Column<OperatorAccountSummary>[] = [
  {
    header: 'Account',
    cell: ({ id, name }) => <NameLink to="/server/accounts/$id" params={{ id }} name={name || '(no name)'} />,
  },
  { header: 'Status', width: '8rem', phone: 'aside', cell: (account) => <AccountBadge account={account} /> },
  { header: 'Owner', phone: 'bare', cell: ({ email }) => <bdi title={email}>{email}</bdi> },
  {
    header: 'Plan',
    width: '9rem',
    phone: 'none',
    cell: ({ plan, parent_account_id: parent }) => (parent === null ? plan : 'Sub-account'),
  },
  { header: 'Recipients this month', width: '12rem', isNumeric: true, phone: 'none', cell: formatQuota },
  { header: 'Created', width: '9rem', isNumeric: true, phone: 'bare', cell: ({ created_at: at }) => <Time iso={at} /> },
]

const AccountsScreen = () => (
  <ServerList
    title="Accounts"
    read={read.operator.listAccounts}
    filters={ACCOUNT_FILTERS}
    columns={COLUMNS}
    noun="account"
    empty={<EmptyState title="There is no account" command="tassis accounts create --help" />}
    advice="Search for a part of the name or of the owner’s address, or for the whole id."
  />
)
export default AccountsScreen
