/** @module The account: its name, the defaults of its mail, and what it is. */
import { Alert, Code, Group, Text } from '@mantine/core'
import type { Account } from '#client/api.ts'
import { api } from '../api/client.ts'
import { SESSION } from '../api/session.tsx'
import { Copy } from '../parts/copy.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import { TextLink } from '../parts/links.tsx'
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

const AccountForm = ({ account }: { readonly account: Account }) => (
  <FieldForm
    aria-label="Account"
    maw={560}
    needs="admin"
    stored={account}
    run={api.account.update}
    // The frame shows the name.
    refreshes={['account', SESSION]}
    fields={[
      {
        name: 'name',
        label: 'Name',
        hint: 'People see it in invitations and when they choose an account.',
        isRequired: true,
      },
      {
        name: 'tracking_default',
        label: 'Track opens and clicks by default',
        kind: 'switch',
        hint: 'For emails that do not say so themselves. Links then lead through the tracking host, and HTML gets a tiny image.',
      },
      {
        name: 'tracking_privacy',
        label: 'Track without IP address and user agent',
        kind: 'switch',
        hint: 'Opens and clicks are then counted without either. It applies from the change on; what is stored stays.',
      },
    ]}
  />
)

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
        ['Plan', <TextLink key="plan" to="/settings/plan">{`${account.plan}, and what it allows`}</TextLink>],
        [
          'Recipients this month',
          `${account.emails_sent_this_month.toLocaleString()} of ${formatLimit(account.monthly_quota).toLowerCase()}`,
        ],
        ['Counted again from', <Time key="reset" iso={account.quota_reset_at} />],
        ['Created', <Time key="created" iso={account.created_at} />],
      ]}
    />
    <Text size="sm" maw={640}>
      Mail that is only captured, for tests, is in the{' '}
      <TextLink to="/sandbox" underline="always">
        Sandbox
      </TextLink>
      . What is kept for how long is set by the operator of this server.
    </Text>
  </Section>
)
