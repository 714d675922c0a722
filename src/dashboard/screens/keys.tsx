/** @module The API keys; one of them: when it was used, what it may do, how to change and delete it; and a new one. */
import { Checkbox, Code, Group, Input, NativeSelect, Radio, SimpleGrid, Stack, Text } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import type { ApiKey, CreateApiKeyResult, UpdateApiKeyRequest } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useAll, useData } from '../api/data.ts'
import { useAllowed, useSession } from '../api/session.tsx'
import { toSendCommand } from '../parts/commands.ts'
import { Copy } from '../parts/copy.tsx'
import { DeleteButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import type { Field, Input as FieldState } from '../parts/fields.ts'
import { bindText } from '../parts/form.tsx'
import { ButtonLink, NameLink } from '../parts/links.tsx'
import { ActionLink } from '../parts/list.tsx'
import { CommandBlock, EmptyState, Facts, Page, QueryView, Section, useEscape } from '../parts/page.tsx'
import { ADMIN_SCOPE, findPreset, SCOPE_GROUPS, SCOPE_PRESETS, SCOPE_TEXTS, summariseScopes } from '../parts/scopes.ts'
import { Notice, StatusLabel } from '../parts/status.tsx'
import { type Column, DataTable } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import type { FormState } from '../parts/use-form.tsx'
import { useAllDomains, useExampleDomain } from './queries.ts'

const COLUMNS: readonly Column<ApiKey>[] = [
  {
    header: 'Name',
    width: '24%',
    cell: ({ id, name }) => <NameLink to="/keys/$id" params={{ id }} name={name} title={name} />,
  },
  {
    header: 'Key',
    phone: 'none',
    cell: ({ key_prefix: prefix, connected_by: by }) => (by === null ? <Code>{prefix}…</Code> : <bdi>by {by}</bdi>),
  },
  { header: 'Access', phone: 'bare', cell: ({ scopes }) => summariseScopes(scopes) },
  { header: 'Domain', phone: 'none', cell: ({ domains }) => domains?.join(', ') ?? 'All' },
  { header: 'Status', width: '15%', phone: 'aside', cell: (key) => <KeyStatus apiKey={key} /> },
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

interface KeyProps {
  readonly apiKey: ApiKey
}

const KeyStatus = ({ apiKey: { is_active: isActive, connected_by: by } }: KeyProps) => (
  <StatusLabel tone={isActive ? 'good' : 'bad'}>
    {isActive ? (by === null ? 'Active' : 'Connected app') : 'Expired'}
  </StatusLabel>
)

export function ApiKeyScreen() {
  const { id } = useParams({ from: '/keys/$id' })
  const reason = useAllowed('admin')
  const query = useData(read.apiKeys.list(), { enabled: reason === undefined })
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/keys' }))
  const key = query.data?.find((one) => one.id === id)
  return (
    <Page
      title={key?.name ?? 'API key'}
      back={{ label: 'API keys', target: { to: '/keys' } }}
      status={key && <KeyStatus apiKey={key} />}
    >
      {reason !== undefined ? (
        <Notice>{reason}</Notice>
      ) : (
        <QueryView query={query}>
          {() =>
            key ? (
              <KeyDetails key={key.id} apiKey={key} />
            ) : (
              <EmptyState title="Not found" text="It may have been deleted, or belong to another account." />
            )
          }
        </QueryView>
      )}
    </Page>
  )
}

const KeyDetails = ({ apiKey: key }: KeyProps) => (
  <Stack gap="lg">
    <Facts
      facts={[
        key.connected_by === null
          ? ['Begins with', <Code key="prefix">{key.key_prefix}…</Code>]
          : ['Connected by', <bdi key="by">{key.connected_by}</bdi>],
        ['Last use', key.last_used_at === null ? 'Never' : <Time key="used" iso={key.last_used_at} isRelative />],
        ['Created', <Time key="created" iso={key.created_at} />],
      ]}
    />
    <Section title="Settings" description={`They count from the next request. ${toWords(key).advice}`}>
      <FieldForm
        maw={640}
        aria-label="Settings"
        fields={useKeyFields()}
        layout={KeyLayout}
        stored={key}
        refreshes={['apiKeys']}
        run={(body: UpdateApiKeyRequest) => api.apiKeys.update(key.id, body)}
      />
    </Section>
    <Section
      title={toWords(key).button.confirm}
      description={toWords(key).effect}
      action={<DeleteKey apiKey={key} />}
    />
  </Stack>
)

const KEY_WORDS = {
  advice: 'To replace a key, create another one, and delete this one once it is no longer used.',
  effect: 'Requests with this key fail immediately.',
  button: { label: 'Delete this key', title: 'Delete this key?', confirm: 'Delete' },
}
const APP_WORDS = {
  advice: 'The app never has more than the role of the person who connected it.',
  effect: 'The app can do nothing more. A person can connect it again.',
  button: { label: 'Disconnect', title: 'Disconnect this app?', confirm: 'Disconnect' },
}
const toWords = ({ connected_by: by }: ApiKey) => (by === null ? KEY_WORDS : APP_WORDS)

const DeleteKey = ({ apiKey: key }: KeyProps) => (
  <DeleteButton
    {...toWords(key).button}
    needs="admin"
    remove={() => api.apiKeys.delete(key.id)}
    refreshes={['apiKeys']}
    leadsTo={{ to: '/keys' }}
  >
    <Text>
      Requests with <bdi>{key.name}</bdi> {key.connected_by === null && <Code>{key.key_prefix}…</Code>} fail with 401
      immediately. This cannot be undone.
    </Text>
    <Text fw={600}>
      {key.last_used_at === null ? (
        'It has never been used.'
      ) : (
        <>
          Last use: <Time iso={key.last_used_at} isRelative />.
        </>
      )}
    </Text>
  </DeleteButton>
)

type Limit = 'expires_at' | 'domains' | 'networks' | 'drafts' | 'allowed_recipients' | 'daily_limit' | 'mailbox_id'
type KeyField = Field<'name' | 'scopes' | Limit>

const GRANTS: readonly KeyField[] = [
  { name: 'name', label: 'Name', hint: 'What uses the key.', placeholder: 'Web shop', isRequired: true },
  { name: 'scopes', label: 'Access', render: (input) => <Access {...input} /> },
  { name: 'domains', label: 'Domain', render: (input) => <DomainChoice {...input} /> },
]

const LIMITS: readonly KeyField[] = [
  { name: 'expires_at', label: 'Expires', kind: 'time', hint: 'Empty: never.' },
  {
    name: 'networks',
    label: 'Allowed networks',
    kind: 'words',
    hint: 'Addresses or networks. Empty: any.',
    placeholder: '192.0.2.0/24',
  },
  {
    name: 'allowed_recipients',
    label: 'Allowed recipients',
    kind: 'words',
    hint: 'Addresses, or domains as @example.com. Empty: any.',
    placeholder: '@example.com',
  },
  { name: 'daily_limit', label: 'Emails a day', kind: 'number', hint: 'One for each recipient. Empty: no limit.' },
]

const DRAFTS: KeyField = {
  name: 'drafts',
  label: 'Emails wait until a person releases them',
  kind: 'check',
  hint: 'For programs that write mail of their own, such as agents. They wait in Emails, as drafts.',
}

function useKeyFields(): readonly KeyField[] {
  const { data: mailboxes = [] } = useAll(read.mailboxes.list({ per_page: 100 }))
  const mailbox: KeyField = {
    name: 'mailbox_id',
    label: 'Mailbox',
    kind: 'choice',
    hint: 'A key for one agent mailbox reads and answers its messages, and sends from its address only.',
    options: [
      { value: '', label: 'All that its access allows' },
      ...mailboxes.map(({ id, address }) => ({ value: id, label: address })),
    ],
  }
  return [...GRANTS, ...LIMITS, mailbox, DRAFTS]
}

const KeyLayout = ({ fields, show }: FormState) => (
  <>
    {show(GRANTS)}
    <SimpleGrid w="100%" cols={{ base: 1, sm: 2 }} spacing="md">
      {show(LIMITS)}
    </SimpleGrid>
    {show(fields.slice(GRANTS.length + LIMITS.length))}
  </>
)

const CUSTOM = 'Custom'

function Access({ value, error, set }: FieldState) {
  const scopes = value as readonly string[]
  const [isCustom, setIsCustom] = useState(() => findPreset(scopes) === undefined)
  const choose = (label: string) => {
    const preset = SCOPE_PRESETS.find((one) => one.label === label)
    setIsCustom(!preset)
    if (preset) set(preset.scopes)
  }
  return (
    <Stack gap="md" w="100%">
      <Radio.Group label="Access" value={isCustom ? CUSTOM : (findPreset(scopes)?.label ?? CUSTOM)} onChange={choose}>
        <Stack gap="xs" mt="xs">
          {SCOPE_PRESETS.map(({ label, text }) => (
            <Radio key={label} value={label} label={label} description={text} />
          ))}
          <Radio value={CUSTOM} label={CUSTOM} description="Only the scopes that you choose." />
        </Stack>
      </Radio.Group>
      {isCustom && (
        <Checkbox.Group value={[...scopes]} onChange={set} aria-label="Scopes">
          <div className="card">
            <SimpleGrid cols={{ base: 1, sm: 2 }} spacing="md">
              {SCOPE_GROUPS.map(({ label, scopes: group }) => (
                <Stack key={label} gap="xs" role="group" aria-label={label}>
                  <strong>{label}</strong>
                  {group.map((scope) => (
                    <Checkbox key={scope} value={scope} label={<Code>{scope}</Code>} description={SCOPE_TEXTS[scope]} />
                  ))}
                </Stack>
              ))}
            </SimpleGrid>
          </div>
        </Checkbox.Group>
      )}
      {error !== undefined && <Input.Error>{error}</Input.Error>}
      {scopes.includes(ADMIN_SCOPE) && (
        <Notice tone="warning" title="This key can do everything">
          It can also create keys and delete the account. An application that sends mail needs Sending.
        </Notice>
      )}
    </Stack>
  )
}

/** One domain of the account, or all; several, as a key made elsewhere may have, are one choice. */
function DomainChoice({ value, error, set, isReadOnly }: FieldState) {
  const known = useAllDomains().data?.map(({ domain }) => domain) ?? []
  const chosen = Array.isArray(value) ? value.join(', ') : ''
  return (
    <NativeSelect
      w="100%"
      label="Domain"
      description="What the key may send from."
      error={error}
      disabled={isReadOnly}
      {...bindText(chosen, (names) => set(names === '' ? null : names.split(', ')))}
      data={[{ value: '', label: 'All domains' }, ...new Set([...known, chosen].filter(Boolean))]}
    />
  )
}

export function ApiKeyNewScreen() {
  const [created, setCreated] = useState<CreateApiKeyResult>()
  const fields = useKeyFields()
  if (created) return <CreatedKey apiKey={created} />
  return (
    <Page title="Create an API key" back={{ label: 'API keys', target: { to: '/keys' } }}>
      <FieldForm
        maw={640}
        needs="admin"
        label="Create the key"
        isFocused
        fields={fields}
        layout={KeyLayout}
        initial={{ scopes: SCOPE_PRESETS[0]?.scopes }}
        refreshes={['apiKeys']}
        run={api.apiKeys.create}
        onDone={({ data }) => setCreated(data)}
      />
    </Page>
  )
}

function CreatedKey({ apiKey }: { readonly apiKey: CreateApiKeyResult }) {
  const { user } = useSession()
  const domain = useExampleDomain()?.domain
  const { key, name, scopes } = apiKey
  const canSend = scopes.includes('emails:send') || scopes.includes(ADMIN_SCOPE)
  return (
    <Page title="Your new API key">
      <Stack align="flex-start" maw={800}>
        <Notice tone="warning" title="Copy it now" isUrgent>
          It is shown only now. If you lose it, create another one.
        </Notice>
        <Group gap="xs" maw="100%">
          <Code fz="md" p="xs" data-secret>
            {key}
          </Code>
          <Copy value={key} what="the API key" />
        </Group>
        <Text>
          <bdi>{name}</bdi>: {summariseScopes(scopes)}.
        </Text>
        {canSend && (
          <>
            <Text>Try it:</Text>
            <CommandBlock command={toSendCommand(domain, user.email, key)} />
          </>
        )}
        <ButtonLink to="/keys">I have copied it</ButtonLink>
      </Stack>
    </Page>
  )
}
