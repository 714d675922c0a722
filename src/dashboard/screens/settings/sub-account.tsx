/** @module One sub-account: its counts, its name and quota, a key for it, and its end. */
import { Alert, Button, Code, Group, Modal, Radio, Stack, Text, TextInput, Title } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { CreateApiKeyRequest, CreateApiKeyResult, SubAccount, UpdateSubAccountRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useChange, useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { Copy } from '../../parts/copy.tsx'
import {
  bindText,
  ConfirmDialog,
  DeleteButton,
  DialogFrame,
  Form,
  FormError,
  findFieldError,
  SaveRow,
  SmallAction,
  useEdit,
  useFields,
} from '../../parts/form.tsx'
import { Facts, QueryView, Section, useEscape } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'
import { isLimited } from './queries.ts'
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
  const [dialog, setDialog] = useState<ActionDialog>()
  const close = () => setDialog(undefined)
  const button = (name: ActionDialog, label: string) => (
    <SmallAction onClick={() => setDialog(name)}>{label}</SmallAction>
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
        leadsTo="/settings/accounts"
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

interface KeyChoice {
  readonly label: string
  readonly text: string
  /** Left out: all. */
  readonly scopes?: string[]
}

type ChoiceName = 'send' | 'mail' | 'all'

const CHOICES: Readonly<Record<ChoiceName, KeyChoice>> = {
  send: { label: 'Send', text: 'Send emails, and nothing else.', scopes: ['emails:send'] },
  mail: {
    label: 'Send and see',
    text: 'Send emails and read what became of them.',
    scopes: ['emails:send', 'emails:read'],
  },
  all: { label: 'Everything', text: 'Whatever its owner may do, except what needs a signed-in user.' },
}

function KeyDialog({ account, onClose }: { readonly account: SubAccount; onClose(): void }) {
  const [choice, setChoice] = useState<ChoiceName>('mail')
  const create = useChange((body: CreateApiKeyRequest) => api.subAccounts.createApiKey(account.id, body))
  const { values, field } = useFields({ name: '' }, create.error)
  const name = values.name.trim()
  if (create.data) return <CreatedKey created={create.data.data} onClose={onClose} />
  const { scopes } = CHOICES[choice]
  return (
    <DialogFrame
      title="Create an API key for it"
      confirm="Create"
      work={create}
      fields={['name']}
      isIncomplete={name === ''}
      onConfirm={() => create.mutate({ name, ...(scopes && { scopes }) })}
      onClose={onClose}
    >
      <Text size="sm">
        The key acts in <bdi>{account.name}</bdi>. Its team sees it in its list and can delete it there.
      </Text>
      <TextInput
        {...field('name')}
        label="What it is for"
        maxLength={200}
        dir="auto"
        autoComplete="off"
        required
        data-autofocus
      />
      <Radio.Group label="What it may do" value={choice} onChange={(value) => setChoice(value as ChoiceName)}>
        <Stack gap="xs" mt="xs">
          {Object.entries(CHOICES).map(([value, { label, text }]) => (
            <Radio key={value} value={value} label={label} description={text} />
          ))}
        </Stack>
      </Radio.Group>
    </DialogFrame>
  )
}

/** Closes only by its button: the key is not shown again. */
const CreatedKey = ({ created: { key, name }, onClose }: { readonly created: CreateApiKeyResult; onClose(): void }) => (
  <Modal
    opened
    onClose={() => undefined}
    title="The key was created"
    closeOnClickOutside={false}
    closeOnEscape={false}
    withCloseButton={false}
  >
    <Stack>
      <Text>
        This is the key <bdi>{name}</bdi>. It is not stored here and not shown again: copy it now.
      </Text>
      <Code block style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
        {key}
      </Code>
      <Group justify="space-between">
        <Copy value={key} what="API key" />
        <Button onClick={onClose}>I have kept it</Button>
      </Group>
    </Stack>
  </Modal>
)
