/** @module Data of one person, the export of the account, and its deletion. */
import { Alert, List, Text } from '@mantine/core'
import { api, read } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { download } from '../../api/download.ts'
import { useAllowed, useSession } from '../../api/session.tsx'
import { ActionButton, ConfirmButton, FormError } from '../../parts/form.tsx'
import { Section } from '../../parts/page.tsx'
import { SettingsPage } from './frame.tsx'
import { PersonData } from './person-data.tsx'

function DeleteAccount() {
  const reason = useAllowed('owner')
  const { account } = useSession()
  return (
    <>
      <Text size="sm" maw={640}>
        Deletes the account, its sub-accounts and everything in them, permanently. Export first what you want to keep.
      </Text>
      <ConfirmButton
        label="Delete this account"
        reason={reason}
        title="Delete this account?"
        confirm="Delete everything"
        typed={account.name.trim()}
        run={() => api.account.delete({ headers: { 'x-confirm-delete': 'DELETE' } })}
        // The session has ended with the account: this page would only ask to sign in again.
        onDone={() => location.assign('/login')}
      >
        <Alert color="red" title="This cannot be undone">
          <bdi>{account.name}</bdi> and all of its data are deleted.
        </Alert>
        <List size="sm">
          <List.Item>API keys and sessions are rejected immediately, for everybody in the team.</List.Item>
          <List.Item>Mail that waits is cancelled. Mail to the domains is rejected.</List.Item>
          <List.Item>
            Domains, templates, contacts, suppressions, emails, received mail and events are deleted, also those of
            sub-accounts.
          </List.Item>
          <List.Item>A subscription at the payment provider ends.</List.Item>
          <List.Item>Users who belong to no other account are deleted.</List.Item>
        </List>
      </ConfirmButton>
    </>
  )
}

export default function PrivacyScreen() {
  return (
    <SettingsPage title="Privacy and deletion">
      <Section id="person" title="Data of one person" align="flex-start">
        <PersonData />
      </Section>
      <Section title="Export of the account" align="flex-start">
        <AccountExport />
      </Section>
      <Section title="Delete the account" align="flex-start">
        <DeleteAccount />
      </Section>
    </SettingsPage>
  )
}

function AccountExport() {
  const reason = useAllowed('admin')
  const start = useChange(() => download(read.account.export().url))
  return (
    <>
      <Text size="sm" maw={640}>
        One JSON file with everything that the account has: domains, templates, contacts, emails, events and more. It
        has no bodies of emails, no attachments and no secrets. One completed export an hour.
      </Text>
      <ActionButton variant="default" reason={reason} loading={start.isPending} onClick={() => start.mutate(undefined)}>
        Download account.json
      </ActionButton>
      <Text size="sm" role="status">
        {start.isSuccess && 'The download has begun. The browser shows its progress.'}
      </Text>
      <FormError error={start.error} />
    </>
  )
}
