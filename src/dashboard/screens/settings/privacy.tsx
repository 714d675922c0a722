/** @module Data of one person, the export of the account, and its deletion. */
import { Text } from '@mantine/core'
import { download } from '../../api/download.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton } from '../../parts/action.tsx'
import { FormError } from '../../parts/form-error.tsx'
import { Section } from '../../parts/section.tsx'
import { DeleteAccount } from './delete-account.tsx'
import { SettingsPage } from './frame.tsx'
import { PersonData } from './person-data.tsx'
import { useChange } from './queries.ts'

export const PrivacyScreen = () => (
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

function AccountExport() {
  const reason = useAllowed('admin')
  const start = useChange(() => download('/v1/account/export'))
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
