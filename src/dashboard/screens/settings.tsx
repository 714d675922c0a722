/** @module The account: its name, the defaults of its mail, and what it is. */
import { Alert, Code, Group, Switch, Text, TextInput } from '@mantine/core'
import type { Account, UpdateAccountRequest } from '#client/api.ts'
import { api } from '../api/client.ts'
import { SESSION, useAllowed } from '../api/session.tsx'
import { Copy } from '../parts/copy.tsx'
import { bindChecked, bindText, Form, FormError, findFieldError, SaveRow, useEdit } from '../parts/form.tsx'
import { SmallLink } from '../parts/links.tsx'
import { Facts, QueryView, Section } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { SettingsPage } from './settings/frame.tsx'
import { formatLimit, useAccount } from './settings/queries.ts'

export default function SettingsScreen() {
  const query = useAccount()
  return (
    <SettingsPage title="Settings">
      <QueryView query={query}>
        {(data) => (
          <>
            <Paused account={data} />
            <AccountForm key={data.id} account={data} />
            <AccountFacts account={data} />
          </>
        )}
      </QueryView>
    </SettingsPage>
  )
}

const Paused = ({ account: { paused } }: { readonly account: Account }) =>
  paused ? (
    <Alert color="red" title="Sending is paused">
      {paused.reason} Since <Time iso={paused.since} />. Queued mail is kept. The operator of this server can resume
      sending.
    </Alert>
  ) : null

function AccountForm({ account }: { readonly account: Account }) {
  const roleReason = useAllowed('admin')
  const { changes, set, save, isUnchanged, submit } = useEdit(
    (body: UpdateAccountRequest) => api.account.update(body),
    roleReason,
    'account',
    // The frame shows the name.
    SESSION,
  )
  const { name, tracking_default, tracking_privacy } = { ...account, ...changes } as Account
  return (
    <Form onSubmit={submit} aria-label="Account" maw={560} align="flex-start">
      {roleReason !== undefined && <Alert color="gray">{roleReason}</Alert>}
      <TextInput
        w="100%"
        label="Name"
        description="People see it in invitations and when they choose an account."
        {...bindText(name, (value) => set({ name: value }))}
        error={findFieldError(save.error, 'name')}
        readOnly={roleReason !== undefined}
        maxLength={200}
        dir="auto"
        autoComplete="off"
        required
      />
      <Switch
        label="Track opens and clicks by default"
        description="For emails that do not say so themselves. Links then lead through the tracking host, and HTML gets a tiny image."
        {...bindChecked(tracking_default, (checked) => set({ tracking_default: checked }))}
        disabled={roleReason !== undefined}
      />
      <Switch
        label="Track without IP address and user agent"
        description="Opens and clicks are then counted without either. It applies from the change on; what is stored stays."
        {...bindChecked(tracking_privacy, (checked) => set({ tracking_privacy: checked }))}
        disabled={roleReason !== undefined}
      />
      <FormError error={save.error} fields={['name']} />
      <SaveRow save={save} isUnchanged={isUnchanged} reason={roleReason} />
    </Form>
  )
}

const AccountFacts = ({ account }: { readonly account: Account }) => (
  <Section title="About this account">
    <Facts
      facts={[
        [
          'Id',
          <Group key="id" gap="xs">
            <Code>{account.id}</Code>
            <Copy value={account.id} what="id of the account" />
          </Group>,
        ],
        ['Address', account.email],
        ['Plan', <SmallLink key="plan" to="/settings/plan">{`${account.plan}, and what it allows`}</SmallLink>],
        [
          'Recipients this month',
          `${account.emails_sent_this_month.toLocaleString()} of ${formatLimit(account.monthly_quota).toLowerCase()}`,
        ],
        ['Counted again from', <Time key="reset" iso={account.quota_reset_at} />],
        ['Created', <Time key="created" iso={account.created_at} isExact />],
      ]}
    />
    <Text size="sm" maw={640}>
      Mail that is only captured, for tests, is in the{' '}
      <SmallLink to="/sandbox" underline="always">
        Sandbox
      </SmallLink>
      . What is kept for how long is set by the operator of this server.
    </Text>
  </Section>
)
