/** @module Sub-accounts: accounts of customers, shops or teams that belong to this one; and one of them. */
import { Text } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import type { SubAccount, UpdateSubAccountRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { CopyText } from '../../parts/copy.tsx'
import { ConfirmButton, DeleteButton, FormButton } from '../../parts/dialog.tsx'
import { FieldForm } from '../../parts/field-form.tsx'
import type { Field } from '../../parts/fields.ts'
import { Figures } from '../../parts/figures.tsx'
import { NameLink } from '../../parts/links.tsx'
import { ListView, useList } from '../../parts/list.tsx'
import { EmptyState, Facts, QueryView, RecordPage, Section } from '../../parts/page.tsx'
import { showSecret } from '../../parts/secret-dialog.tsx'
import { Notice, StatusLabel } from '../../parts/status.tsx'
import { type Column, column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { formatLimit, formatUsage, isLimited, SettingsPage, useAccount } from './frame.tsx'

const SubAccountStatus = ({ isActive }: { readonly isActive: boolean }) =>
  isActive ? <StatusLabel tone="good">Active</StatusLabel> : <StatusLabel tone="warning">Disabled</StatusLabel>

const toUsage = ({ emails_sent_this_month: sent, monthly_quota: quota }: SubAccount): string => formatUsage(sent, quota)

const COLUMNS: readonly Column<SubAccount>[] = [
  column('Name', { width: '26%' }, ({ id, name }) => (
    <NameLink to="/settings/accounts/$id" params={{ id }} name={name} title={name} />
  )),
  column('Owner', { phone: 'bare' }, ({ email }) => <bdi>{email}</bdi>),
  column('Status', { width: '14%', phone: 'aside' }, ({ is_active: isActive }) => (
    <SubAccountStatus isActive={isActive} />
  )),
  column('Created', { width: '17%', phone: 'none' }, ({ created_at: at }) => <Time iso={at} />),
  column('Recipients this month', { width: '20%', isNumeric: true }, toUsage),
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
function useQuotaField(): Field<'monthly_quota'> {
  const quota = useAccount().data?.monthly_quota
  const all = quota === undefined || !isLimited(quota) ? '' : ` (${formatLimit(quota)})`
  return {
    name: 'monthly_quota',
    label: 'Recipients a month',
    kind: 'number',
    hint: `Empty: as many as your account may send${all}. 0: none.`,
  }
}

export function SubAccountScreen() {
  const { id } = useParams({ from: '/settings/accounts/$id' })
  const reason = useAllowed('admin')
  return reason === undefined ? (
    <Loaded id={id} />
  ) : (
    <SettingsPage title="Sub-account">
      <Notice>{reason}</Notice>
    </SettingsPage>
  )
}

function Loaded({ id }: { readonly id: string }) {
  const query = useData(read.subAccounts.get(id))
  return (
    <RecordPage
      title={query.data?.name ?? 'Sub-account'}
      list={{ to: '/settings/accounts' }}
      listName="Sub-accounts"
      query={query}
      status={query.data && <SubAccountStatus isActive={query.data.is_active} />}
      action={query.data && <Actions account={query.data} />}
    >
      {(data) => (
        <>
          <Counts account={data} />
          <ChangeForm key={data.id} account={data} />
        </>
      )}
    </RecordPage>
  )
}

interface SubAccountProps {
  readonly account: SubAccount
}

function Counts({ account }: SubAccountProps) {
  const query = useData(read.subAccounts.getAnalytics(account.id))
  return (
    <>
      {!account.is_active && (
        <Notice tone="warning" title="It is disabled">
          Its keys and sessions are rejected, and its waiting mail is held. Mail to its domains is still accepted.
        </Notice>
      )}
      <Facts
        facts={[
          ['Owner', account.email],
          ['Recipients this month', toUsage(account)],
          ['Created', <Time key="created" iso={account.created_at} />],
          ['Id', <CopyText key="id" value={account.id} what="id of the sub-account" />],
        ]}
      />
      <Section title="Last 30 days">
        <QueryView query={query}>
          {(data) => (
            <Figures
              figures={[
                { label: 'Sent', value: data.sent },
                { label: 'Delivered', value: data.delivered },
                { label: 'Bounced', value: data.bounced },
                { label: 'Complaints', value: data.complaints },
                { label: 'Opened', value: data.opens },
                { label: 'Clicked', value: data.clicks },
              ]}
            />
          )}
        </QueryView>
      </Section>
    </>
  )
}

const ChangeForm = ({ account }: SubAccountProps) => (
  <Section id="change" title="Name and quota">
    <FieldForm
      aria-labelledby="change"
      maw={480}
      stored={account}
      initial={{ ...account, monthly_quota: isLimited(account.monthly_quota) ? account.monthly_quota : null }}
      run={(body: UpdateSubAccountRequest) => api.subAccounts.update(account.id, body)}
      refreshes={['subAccounts']}
      fields={[{ name: 'name', label: 'Name', isRequired: true }, useQuotaField()]}
    />
  </Section>
)

const Actions = ({ account }: SubAccountProps) => (
  <>
    <DeleteButton
      needs="admin"
      noun="sub-account"
      confirm="Delete it with all its data"
      typed={account.name}
      remove={() => api.subAccounts.delete(account.id)}
      refreshes={[['subAccounts', 'list']]}
      leadsTo={{ to: '/settings/accounts' }}
    >
      Its keys become invalid, waiting mail is cancelled, and its domains, templates, contacts, emails and events are
      deleted. This cannot be undone. What it sent this month stays counted.
    </DeleteButton>
    <SwitchButton account={account} />
    <KeyButton account={account} />
  </>
)

function SwitchButton({ account: { id, is_active: isActive } }: SubAccountProps) {
  const verb = isActive ? 'Disable' : 'Enable'
  return (
    <ConfirmButton
      key={verb}
      label={verb}
      title={`${verb} this sub-account?`}
      confirm={verb}
      isDangerous={isActive}
      refreshes={['subAccounts']}
      run={() => api.subAccounts.update(id, { is_active: !isActive })}
    >
      {isActive
        ? 'Its keys and sessions are rejected from now on, and its waiting mail is held until you enable it again. Mail to its domains is still accepted.'
        : 'The same keys and sessions work again, and held mail is sent.'}
    </ConfirmButton>
  )
}

const CHOICES = [
  { value: 'emails:send', label: 'Send', description: 'Send emails, and nothing else.' },
  { value: 'emails:send emails:read', label: 'Send and see', description: 'Send emails and read what became of them.' },
  { value: '', label: 'Everything', description: 'Whatever its owner may do, except what needs a signed-in user.' },
]

interface NewKey {
  readonly name: string
  /** Separated by spaces; none: all. */
  readonly scopes?: string
}

const KeyButton = ({ account }: SubAccountProps) => (
  <FormButton
    label="Create an API key for it"
    confirm="Create"
    fields={[
      { name: 'name', label: 'What it is for', isRequired: true },
      { name: 'scopes', label: 'What it may do', kind: 'radio', options: CHOICES },
    ]}
    initial={{ scopes: CHOICES[1]?.value }}
    run={({ name, scopes }: NewKey) =>
      api.subAccounts.createApiKey(account.id, { name, ...(scopes && { scopes: scopes.split(' ') }) })
    }
    onDone={({ data: { name, key } }) =>
      showSecret({
        title: 'API key',
        text: (
          <>
            This is the key <bdi>{name}</bdi>. It is not stored here and not shown again: copy it now.
          </>
        ),
        secret: key,
      })
    }
  >
    <Text size="sm">
      The key acts in <bdi>{account.name}</bdi>. Its team sees it in its list and can delete it there.
    </Text>
  </FormButton>
)
