/** @module One sub-account: its counts, its name and quota, a key for it, and its end. */
import { Text } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import type { SubAccount, UpdateSubAccountRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { CopyText } from '../../parts/copy.tsx'
import { ConfirmButton, DeleteButton, FormButton } from '../../parts/dialog.tsx'
import { FieldForm } from '../../parts/field-form.tsx'
import { Figures } from '../../parts/figures.tsx'
import { Notice } from '../../parts/notice.tsx'
import { Facts, QueryView, Section, useEscape } from '../../parts/page.tsx'
import { showSecret } from '../../parts/secret-dialog.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'
import { isLimited } from './queries.ts'
import { SubAccountStatus, toUsage, useQuotaField } from './sub-accounts.tsx'

export default function SubAccountScreen() {
  const { id } = useParams({ from: '/settings/accounts/$id' })
  const reason = useAllowed('admin')
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/settings/accounts' }))
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
    <SettingsPage
      title={query.data?.name ?? 'Sub-account'}
      back={{ label: 'Sub-accounts', target: { to: '/settings/accounts' } }}
      status={query.data && <SubAccountStatus isActive={query.data.is_active} />}
      action={query.data && <Actions account={query.data} />}
    >
      <QueryView query={query}>
        {(data) => (
          <>
            <Counts account={data} />
            <ChangeForm key={data.id} account={data} />
          </>
        )}
      </QueryView>
    </SettingsPage>
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
