/** @module One sub-account: its counts, its name and quota, a key for it, and its end. */
import { Alert, Code, Group, Stack, Text, TextInput, Title } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { SubAccount, UpdateSubAccountRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import {
  bindText,
  ConfirmDialog,
  DeleteButton,
  Form,
  FormError,
  findFieldError,
  SaveRow,
  SmallAction,
  useEdit,
} from '../../parts/form.tsx'
import { Facts, QueryView, Section, useEscape } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'
import { isLimited } from './queries.ts'
import { KeyDialog } from './sub-account-key.tsx'
import { QuotaField, SubAccountStatus, toUsage } from './sub-accounts.tsx'

export default function SubAccountScreen() {
  const { id } = useParams({ from: '/settings/accounts/$id' })
  const reason = useAllowed('admin')
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/settings/accounts' }))
  return reason === undefined ? (
    <Loaded id={id} />
  ) : (
    <SettingsPage title="Sub-account">
      <Alert color="gray">{reason}</Alert>
    </SettingsPage>
  )
}

function Loaded({ id }: { readonly id: string }) {
  const query = useData(read.subAccounts.get(id))
  return (
    <SettingsPage
      title={query.data?.name ?? 'Sub-account'}
      list={{ label: 'All sub-accounts', to: '/settings/accounts' }}
    >
      <QueryView query={query}>
        {(data) => (
          <>
            <Counts account={data} />
            <Actions account={data} />
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
    <Stack gap="sm">
      <SubAccountStatus isActive={account.is_active} />
      {!account.is_active && (
        <Text size="sm">
          Its keys and sessions are rejected, and its waiting mail is held. Mail to its domains is still accepted.
        </Text>
      )}
      <Facts
        facts={[
          ['Owner', account.email],
          ['Recipients this month', toUsage(account)],
          ['Created', <Time key="created" iso={account.created_at} isExact />],
          ['Id', <Code key="id">{account.id}</Code>],
        ]}
      />
      <Title order={2} size="h4">
        Last 30 days
      </Title>
      <QueryView query={query}>
        {(data) => (
          <Facts
            facts={[
              ['Sent', data.sent.toLocaleString()],
              ['Delivered', data.delivered.toLocaleString()],
              ['Bounced', data.bounced.toLocaleString()],
              ['Complaints', data.complaints.toLocaleString()],
              ['Opened', data.opens.toLocaleString()],
              ['Clicked', data.clicks.toLocaleString()],
            ]}
          />
        )}
      </QueryView>
    </Stack>
  )
}

function ChangeForm({ account }: SubAccountProps) {
  const { changes, set, save, isUnchanged, submit } = useEdit(
    (body: UpdateSubAccountRequest) => api.subAccounts.update(account.id, body),
    undefined,
    'subAccounts',
  )
  const quota = changes.monthly_quota === undefined ? account.monthly_quota : changes.monthly_quota
  return (
    <Section id="change" title="Name and quota">
      <Form onSubmit={submit} aria-labelledby="change" maw={480} align="stretch">
        <TextInput
          label="Name"
          {...bindText(changes.name ?? account.name, (value) => set({ name: value }))}
          error={findFieldError(save.error, 'name')}
          maxLength={200}
          dir="auto"
          autoComplete="off"
        />
        <QuotaField
          value={quota !== null && isLimited(quota) ? quota : undefined}
          error={findFieldError(save.error, 'monthly_quota')}
          onChange={(next) => set({ monthly_quota: next ?? null })}
        />
        <FormError error={save.error} fields={['name', 'monthly_quota']} />
        <SaveRow save={save} isUnchanged={isUnchanged} />
      </Form>
    </Section>
  )
}

type ActionDialog = 'key' | 'disable' | 'enable'

function Actions({ account }: SubAccountProps) {
  const navigate = useNavigate()
  const [dialog, setDialog] = useState<ActionDialog>()
  const close = () => setDialog(undefined)
  const button = (name: ActionDialog, label: string) => (
    <SmallAction reason={undefined} onClick={() => setDialog(name)}>
      {label}
    </SmallAction>
  )
  return (
    <Group gap="xs">
      {button('key', 'Create an API key for it')}
      {account.is_active ? button('disable', 'Disable') : button('enable', 'Enable')}
      <DeleteButton
        label="Delete"
        size="xs"
        needs="admin"
        title="Delete this sub-account?"
        confirm="Delete it with all its data"
        typed={account.name}
        remove={() => api.subAccounts.delete(account.id)}
        refreshes={[['subAccounts', 'list']]}
        onDeleted={() => navigate({ to: '/settings/accounts' })}
      >
        <Text>
          Its keys become invalid, waiting mail is cancelled, and its domains, templates, contacts, emails and events
          are deleted. This cannot be undone. What it sent this month stays counted.
        </Text>
      </DeleteButton>
      {dialog === 'key' && <KeyDialog account={account} onClose={close} />}
      {(dialog === 'disable' || dialog === 'enable') && (
        <SwitchDialog account={account} isActive={dialog === 'enable'} onClose={close} />
      )}
    </Group>
  )
}

interface DialogProps extends SubAccountProps {
  onClose(): void
}

const SwitchDialog = ({ account, isActive, onClose }: DialogProps & { readonly isActive: boolean }) => (
  <ConfirmDialog
    title={isActive ? 'Enable this sub-account?' : 'Disable this sub-account?'}
    confirm={isActive ? 'Enable' : 'Disable'}
    isDangerous={!isActive}
    refreshes={['subAccounts']}
    run={() => api.subAccounts.update(account.id, { is_active: isActive })}
    onClose={onClose}
  >
    <Text>
      {isActive
        ? 'The same keys and sessions work again, and held mail is sent.'
        : 'Its keys and sessions are rejected from now on, and its waiting mail is held until you enable it again. Mail to its domains is still accepted.'}
    </Text>
  </ConfirmDialog>
)
