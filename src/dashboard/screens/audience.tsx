/** @module The contact lists of the account. */
import { Text } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { ContactListSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { DialogButton } from '../parts/dialog.tsx'
import { NameLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { EmptyState } from '../parts/page.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { ListDialog } from './audience/list-form.tsx'
import { AudienceNavigation } from './audience/parts.tsx'

const COLUMNS: readonly Column<ContactListSummary>[] = [
  {
    header: 'List',
    cell: ({ id, name, description }) => (
      <>
        <NameLink to="/audience/lists/$id" params={{ id }} name={name} />
        {description !== null && (
          <Text size="sm" c="dimmed" lineClamp={1} title={description} dir="auto">
            {description}
          </Text>
        )}
      </>
    ),
  },
  { header: 'Contacts', width: '14%', cell: ({ contact_count: count }) => count.toLocaleString() },
  {
    header: 'New contacts',
    width: '24%',
    cell: ({ double_opt_in: isAsked }) => (isAsked ? 'Are asked to confirm' : 'Are added directly'),
  },
  {
    header: 'Welcome email',
    width: '15%',
    cell: ({ welcome_email_enabled: isEnabled }) => (isEnabled ? 'On' : 'Off'),
  },
  { header: 'Created', width: '17%', cell: ({ created_at: at }) => <Time iso={at} /> },
]

export default function AudienceScreen() {
  const list = useList({ read: read.contactLists.list, isSteady: true })
  const navigate = useNavigate()
  const create = (
    <DialogButton label="New list" needs="developer">
      {(close) => (
        <ListDialog
          onSaved={({ id }) => void navigate({ to: '/audience/lists/$id', params: { id } })}
          onClose={close}
        />
      )}
    </DialogButton>
  )
  return (
    <ListScreen
      title="Audience"
      list={list}
      label="Contact lists, newest first"
      columns={COLUMNS}
      noun="list"
      action={create}
      above={<AudienceNavigation />}
      empty={
        <EmptyState
          title="Your contact lists will appear here"
          text="A list holds people who want mail of one kind, such as a newsletter. They are added by you, from a CSV file, or by a sign-up form, and leave it with the link in each mail. Broadcasts go to a list."
        >
          {create}
        </EmptyState>
      }
    />
  )
}
