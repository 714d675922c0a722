/** @module Sub-accounts: accounts of customers, shops or teams that belong to this one. */
import { Alert, NumberInput, PasswordInput, Text, TextInput } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { NewSubAccountBody, SubAccountRecord } from '#features/people/sub-accounts/model.ts'
import { type PageOf, requestData } from '../../api/client.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton, DialogFrame, findFieldError, omitFieldErrors } from '../../parts/form.tsx'
import { NameLink } from '../../parts/links.tsx'
import { EmptyState, QueryView } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { type Column, DataTable, Pages } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'
import { formatLimit, useAccount, useChange, useRead } from './queries.ts'

const PER_PAGE = 50

export const SubAccountStatus = ({ isActive }: { readonly isActive: boolean }) =>
  isActive ? <StatusLabel tone="good">Active</StatusLabel> : <StatusLabel tone="warning">Disabled</StatusLabel>

export const toUsage = ({ emails_sent_this_month: sent, monthly_quota: quota }: SubAccountRecord): string =>
  `${sent.toLocaleString()} of ${formatLimit(quota).toLowerCase()}`

const COLUMNS: readonly Column<SubAccountRecord>[] = [
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
  const [isCreating, setIsCreating] = useState(false)
  const create = (
    <ActionButton reason={reason} onClick={() => setIsCreating(true)}>
      Create a sub-account
    </ActionButton>
  )
  return (
    <SettingsPage title="Sub-accounts" action={create}>
      <Text size="sm" maw={640}>
        A sub-account is for a customer, a shop or a team of yours. It has its own domains, keys, mail and team, and
        uses your plan and your quota. You see its counts, not its mail.
      </Text>
      {reason === undefined ? <SubAccountList /> : <Alert color="gray">{reason}</Alert>}
      {isCreating && <CreateDialog onClose={() => setIsCreating(false)} />}
    </SettingsPage>
  )
}

function SubAccountList() {
  const { page = 1 } = useSearch({ from: '/settings/accounts' })
  const query = useRead<PageOf<SubAccountRecord>>(['sub-accounts', 'list'], '/v1/accounts', {
    page,
    per_page: PER_PAGE,
  })
  return (
    <QueryView query={query}>
      {({ data, pagination }) =>
        pagination.total === 0 ? (
          <EmptyState title="Your sub-accounts will appear here">
            <Text maw={640}>
              Creating one also creates its owner, who signs in at this address and may do everything in it.
            </Text>
          </EmptyState>
        ) : (
          <>
            <DataTable label="Sub-accounts, newest first" columns={COLUMNS} rows={data} toKey={({ id }) => id} />
            {data.length === 0 && <Text>There are no sub-accounts on this page.</Text>}
            <Pages path="/settings/accounts" page={page} totalPages={pagination.total_pages} />
          </>
        )
      }
    </QueryView>
  )
}

const EMPTY = { name: '', email: '', password: '' }
const FIELDS = ['name', 'email', 'password', 'monthly_quota'] as const

function CreateDialog({ onClose }: { onClose(): void }) {
  const [values, setValues] = useState(EMPTY)
  const [quota, setQuota] = useState<number>()
  const navigate = useNavigate()
  const create = useChange(
    (body: NewSubAccountBody) => requestData<SubAccountRecord>('POST', '/v1/accounts', { body }),
    ['sub-accounts'],
  )
  const submit = () =>
    create.mutate(
      {
        ...values,
        name: values.name.trim(),
        email: values.email.trim(),
        ...(quota !== undefined && { monthly_quota: quota }),
      },
      { onSuccess: ({ id }) => navigate({ to: '/settings/accounts/$id', params: { id } as never }) },
    )
  const field = (name: keyof typeof EMPTY) => ({
    value: values[name],
    onChange: (event: { currentTarget: { value: string } }) => {
      const { value } = event.currentTarget
      setValues((before) => ({ ...before, [name]: value }))
    },
    error: findFieldError(create.error, name),
    required: true,
  })
  return (
    <DialogFrame
      title="Create a sub-account"
      confirm="Create"
      work={{ isPending: create.isPending, error: omitFieldErrors(create.error, ...FIELDS) }}
      isIncomplete={Object.values(values).some((value) => value.trim() === '')}
      onConfirm={submit}
      onClose={onClose}
    >
      <TextInput {...field('name')} label="Name" maxLength={200} dir="auto" autoComplete="off" data-autofocus />
      <TextInput
        {...field('email')}
        label="Address of its owner"
        description="If this address already has a user here, that user keeps the password and gets an invitation by mail."
        inputMode="email"
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
      />
      <PasswordInput
        {...field('password')}
        label="Password of its owner"
        description="At least 10 characters. Give it to the owner, who can change it."
        autoComplete="new-password"
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
  const quota = useAccount().data?.data.monthly_quota
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
