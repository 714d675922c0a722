/** @module Sub-accounts: accounts of customers, shops or teams that belong to this one. */
import { useNavigate } from '@tanstack/react-router'
import type { SubAccount } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useAllowed } from '../../api/session.tsx'
import { FormButton } from '../../parts/dialog.tsx'
import type { Field } from '../../parts/fields.ts'
import { NameLink } from '../../parts/links.tsx'
import { ListView, useList } from '../../parts/list.tsx'
import { Notice } from '../../parts/notice.tsx'
import { EmptyState } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'
import { formatLimit, formatUsage, isLimited, useAccount } from './queries.ts'

export const SubAccountStatus = ({ isActive }: { readonly isActive: boolean }) =>
  isActive ? <StatusLabel tone="good">Active</StatusLabel> : <StatusLabel tone="warning">Disabled</StatusLabel>

export const toUsage = ({ emails_sent_this_month: sent, monthly_quota: quota }: SubAccount): string =>
  formatUsage(sent, quota)

const COLUMNS: readonly Column<SubAccount>[] = [
  {
    header: 'Name',
    width: '26%',
    cell: ({ id, name }) => <NameLink to="/settings/accounts/$id" params={{ id }} name={name} title={name} />,
  },
  { header: 'Owner', phone: 'bare', cell: ({ email }) => <bdi>{email}</bdi> },
  {
    header: 'Status',
    width: '14%',
    phone: 'aside',
    cell: ({ is_active: isActive }) => <SubAccountStatus isActive={isActive} />,
  },
  { header: 'Created', width: '17%', phone: 'none', cell: ({ created_at: at }) => <Time iso={at} /> },
  { header: 'Recipients this month', width: '20%', isNumeric: true, cell: toUsage },
]

export default function SubAccountsScreen() {
  const reason = useAllowed('admin')
  return (
    <SettingsPage
      title="Sub-accounts"
      description="For a customer, a shop or a team of yours: with domains, keys, mail and a team of its own, on your quota. You see its counts, not its mail."
      action={<CreateButton reason={reason} />}
    >
      {reason === undefined ? <SubAccountList /> : <Notice>{reason}</Notice>}
    </SettingsPage>
  )
}

const SubAccountList = () => (
  <ListView
    list={useList({ read: read.subAccounts.list })}
    columns={COLUMNS}
    noun="sub-account"
    empty={
      <EmptyState
        title="Your sub-accounts will appear here"
        text="Creating one also creates its owner, who signs in at this address and may do everything in it."
      />
    }
  />
)

function CreateButton({ reason }: { readonly reason: string | undefined }) {
  const navigate = useNavigate()
  return (
    <FormButton
      label="Create a sub-account"
      reason={reason}
      confirm="Create"
      fields={[
        { name: 'name', label: 'Name', isRequired: true },
        {
          name: 'email',
          label: 'Address of its owner',
          kind: 'email',
          hint: 'If this address already has a user here, that user keeps the password and gets an invitation by mail.',
          isRequired: true,
        },
        {
          name: 'password',
          label: 'Password of its owner',
          kind: 'password',
          hint: 'At least 10 characters. Give it to the owner, who can change it.',
          autoComplete: 'new-password',
          isRequired: true,
        },
        useQuotaField(),
      ]}
      refreshes={['subAccounts']}
      run={api.subAccounts.create}
      onDone={({ data: { id } }) => navigate({ to: '/settings/accounts/$id', params: { id } })}
    />
  )
}

/** Empty: that of the parent. */
export function useQuotaField(): Field<'monthly_quota'> {
  const quota = useAccount().data?.monthly_quota
  const all = quota === undefined || !isLimited(quota) ? '' : ` (${formatLimit(quota)})`
  return {
    name: 'monthly_quota',
    label: 'Recipients a month',
    kind: 'number',
    hint: `Empty: as many as your account may send${all}. 0: none.`,
  }
}
