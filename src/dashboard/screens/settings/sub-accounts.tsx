/** @module Sub-accounts: accounts of customers, shops or teams that belong to this one. */
import { Alert, NumberInput, PasswordInput, Text, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { SubAccount } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { CODE_INPUT, DialogButton, DialogFrame, findFieldError, useFields } from '../../parts/form.tsx'
import { NameLink } from '../../parts/links.tsx'
import { ListView, useList } from '../../parts/list.tsx'
import { EmptyState } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'
import { formatLimit, useAccount } from './queries.ts'

export const SubAccountStatus = ({ isActive }: { readonly isActive: boolean }) =>
  isActive ? <StatusLabel tone="good">Active</StatusLabel> : <StatusLabel tone="warning">Disabled</StatusLabel>

export const toUsage = ({ emails_sent_this_month: sent, monthly_quota: quota }: SubAccount): string =>
  `${sent.toLocaleString()} of ${formatLimit(quota).toLowerCase()}`

const COLUMNS: readonly Column<SubAccount>[] = [
  {
    header: 'Name',
    width: '26%',
    cell: ({ id, name }) => <NameLink to="/settings/accounts/$id" id={id} name={name} title={name} />,
  },
  { header: 'Owner', cell: ({ email }) => <bdi>{email}</bdi> },
  { header: 'Status', width: '20%', cell: ({ is_active: isActive }) => <SubAccountStatus isActive={isActive} /> },
  { header: 'Recipients this month', cell: toUsage },
  { header: 'Created', width: '17%', cell: ({ created_at: at }) => <Time iso={at} /> },
]

export default function SubAccountsScreen() {
  const reason = useAllowed('admin')
  return (
    <SettingsPage
      title="Sub-accounts"
      action={
        <DialogButton label="Create a sub-account" reason={reason}>
          {(close) => <CreateDialog onClose={close} />}
        </DialogButton>
      }
    >
      <Text size="sm" maw={640}>
        A sub-account is for a customer, a shop or a team of yours. It has its own domains, keys, mail and team, and
        uses your plan and your quota. You see its counts, not its mail.
      </Text>
      {reason === undefined ? <SubAccountList /> : <Alert color="gray">{reason}</Alert>}
    </SettingsPage>
  )
}

const SubAccountList = () => (
  <ListView
    list={useList({ read: read.subAccounts.list })}
    label="Sub-accounts, newest first"
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

const EMPTY = { name: '', email: '', password: '' }

function CreateDialog({ onClose }: { onClose(): void }) {
  const [quota, setQuota] = useState<number>()
  const navigate = useNavigate()
  const create = useChange(api.subAccounts.create, 'subAccounts')
  const { values, field, fields } = useFields(EMPTY, create.error)
  const { name, email, password } = values
  const submit = () =>
    create.mutate(
      { name: name.trim(), email: email.trim(), password, ...(quota !== undefined && { monthly_quota: quota }) },
      { onSuccess: ({ data: { id } }) => navigate({ to: '/settings/accounts/$id', params: { id } as never }) },
    )
  return (
    <DialogFrame
      title="Create a sub-account"
      confirm="Create"
      work={create}
      fields={[...fields, 'monthly_quota']}
      isIncomplete={Object.values(values).some((value) => value.trim() === '')}
      onConfirm={submit}
      onClose={onClose}
    >
      <TextInput
        {...field('name')}
        label="Name"
        required
        maxLength={200}
        dir="auto"
        autoComplete="off"
        data-autofocus
      />
      <TextInput
        {...field('email')}
        {...CODE_INPUT}
        label="Address of its owner"
        description="If this address already has a user here, that user keeps the password and gets an invitation by mail."
        inputMode="email"
        required
      />
      <PasswordInput
        {...field('password')}
        label="Password of its owner"
        description="At least 10 characters. Give it to the owner, who can change it."
        autoComplete="new-password"
        required
      />
      <QuotaField value={quota} error={findFieldError(create.error, 'monthly_quota')} onChange={setQuota} />
    </DialogFrame>
  )
}

interface QuotaFieldProps {
  /** Undefined: that of the parent. */
  readonly value: number | undefined
  readonly error: string | undefined
  onChange(value: number | undefined): void
}

export function QuotaField({ value, error, onChange }: QuotaFieldProps) {
  const quota = useAccount().data?.monthly_quota
  return (
    <NumberInput
      label="Recipients a month"
      description={`Empty: as many as your account may send${quota === undefined ? '' : ` (${formatLimit(quota).toLowerCase()})`}. 0: none.`}
      value={value ?? ''}
      onChange={(next) => onChange(next === '' ? undefined : Number(next))}
      error={error}
      min={0}
      allowDecimal={false}
      allowNegative={false}
      hideControls
      thousandSeparator=" "
    />
  )
}
