/** @module The account: its name, the defaults of its mail, and what it is. */
import type { Account } from '#client/api.ts'
import { api } from '../api/client.ts'
import { SESSION } from '../api/session.tsx'
import { CopyText } from '../parts/copy.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import { InlineLink } from '../parts/links.tsx'
import { Facts, QueryView, Section } from '../parts/page.tsx'
import { Notice } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { formatUsage, SettingsPage, useAccount } from './settings/frame.tsx'

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

interface AccountProps {
  readonly account: Account
}

const Paused = ({ account: { paused } }: AccountProps) =>
  paused ? (
    <Notice tone="bad" title="Sending is paused">
      {paused.reason} Since <Time iso={paused.since} />. Queued mail is kept. The operator of this server can resume
      sending.
    </Notice>
  ) : null

const ZONES = [...new Set(['UTC', ...Intl.supportedValuesOf('timeZone')])]

const AccountForm = ({ account }: AccountProps) => (
  <FieldForm
    aria-label="Account"
    maw={560}
    needs="admin"
    stored={account}
    run={api.account.update}
    // The frame shows the name.
    refreshes={['account', 'analytics', SESSION]}
    fields={[
      { name: 'name', label: 'Name', hint: 'Shown in invitations and in the list of accounts.', isRequired: true },
      {
        name: 'timezone',
        label: 'Time zone',
        kind: 'choice',
        hint: 'Its midnights divide the days of Analytics. Times on your screens follow the account menu.',
        options: [...new Set([account.timezone, ...ZONES])],
      },
      {
        name: 'tracking_default',
        label: 'Track opens and clicks by default',
        kind: 'switch',
        hint: 'For emails that do not say so themselves.',
      },
      {
        name: 'tracking_privacy',
        label: 'Track without IP address and user agent',
        kind: 'switch',
        hint: 'From the change on; what is stored stays.',
      },
    ]}
  />
)

const AccountFacts = ({ account }: AccountProps) => (
  <Section title="About this account">
    <Facts
      facts={[
        ['Id', <CopyText key="id" value={account.id} what="id of the account" />],
        ['Address', account.email],
        ['Plan', <InlineLink key="plan" to="/settings/plan" name={account.plan} />],
        ['Recipients this month', formatUsage(account.emails_sent_this_month, account.monthly_quota)],
        ['Created', <Time key="created" iso={account.created_at} />],
      ]}
    />
  </Section>
)
