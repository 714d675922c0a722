/** @module The contact lists of the account. */
import { useNavigate } from '@tanstack/react-router'
import type { ContactListSummary } from '#client/api.ts'
import { read } from '../api/client.ts'
import { DialogButton } from '../parts/dialog.tsx'
import { NameLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { ListDialog } from './audience/list-form.tsx'
import { AudienceNavigation } from './audience/parts.tsx'

const COLUMNS: readonly Column<ContactListSummary>[] = [
  {
    header: 'List',
    cell: ({ id, name, description }) => (
      <span title={description ?? name}>
        <NameLink to="/audience/lists/$id" params={{ id }} name={name} />
        {description !== null && (
          <span className="time-relative">
            {' '}
            <bdi>{description}</bdi>
          </span>
        )}
      </span>
    ),
  },
  {
    header: 'Double opt-in',
    width: '9rem',
    phone: 'none',
    cell: ({ double_opt_in: isAsked }) => (isAsked ? 'On' : 'Off'),
  },
  {
    header: 'Welcome email',
    width: '9rem',
    phone: 'none',
    cell: ({ welcome_email_enabled: isEnabled }) => (isEnabled ? 'On' : 'Off'),
  },
  { header: 'Contacts', width: '7rem', isNumeric: true, cell: ({ contact_count: count }) => count.toLocaleString() },
  { header: 'Created', width: '9rem', phone: 'aside', cell: ({ created_at: at }) => <Time iso={at} /> },
]

export default function AudienceScreen() {
  const list = useList({ read: read.contactLists.list, isSteady: true })
  const navigate = useNavigate()
  return (
    <ListScreen
      title="Audience"
      list={list}
      columns={COLUMNS}
      noun="list"
      action={
        <DialogButton label="Create a list" needs="developer">
          {(close) => (
            <ListDialog
              onSaved={({ id }) => void navigate({ to: '/audience/lists/$id', params: { id } })}
              onClose={close}
            />
          )}
        </DialogButton>
      }
      navigation={<AudienceNavigation />}
      nothing={{
        title: 'Your contact lists will appear here',
        text: 'A list holds people who want mail of one kind, such as a newsletter. Broadcasts go to a list; the link in each mail leaves it.',
      }}
    />
  )
}
