/** @module The sign-up forms of the account. */
import { useNavigate } from '@tanstack/react-router'
import type { SignupForm } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { FormButton } from '../parts/dialog.tsx'
import { NameLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { StatusLabel } from '../parts/status.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { AudienceNavigation } from './audience/parts.tsx'
import { useAllLists } from './queries.ts'

export default function AudienceFormsScreen() {
  const list = useList({ read: read.signupForms.list })
  const lists = useAllLists()
  const navigate = useNavigate()
  const names = new Map(lists.data?.map(({ id, name }) => [id, name]))
  const columns: readonly Column<SignupForm>[] = [
    {
      header: 'Form',
      cell: ({ id, title }) => <NameLink to="/audience/forms/$id" params={{ id }} name={title} />,
    },
    { header: 'List', width: '30%', phone: 'bare', cell: ({ list_id: id }) => <bdi>{names.get(id) ?? '…'}</bdi> },
    {
      header: 'Status',
      width: '7rem',
      phone: 'bare',
      cell: ({ is_active: isActive }) => (
        <StatusLabel tone={isActive ? 'good' : 'neutral'}>{isActive ? 'Active' : 'Off'}</StatusLabel>
      ),
    },
    { header: 'Created', width: '9rem', phone: 'aside', cell: ({ created_at: at }) => <Time iso={at} /> },
  ]
  return (
    <ListScreen
      title="Sign-up forms"
      list={list}
      columns={columns}
      noun="form"
      action={
        <FormButton
          label="Create a form"
          needs="developer"
          confirm="Create the form"
          error={lists.error}
          fields={[
            {
              name: 'list_id',
              label: 'List',
              kind: 'choice',
              hint: 'A list has at most one form. The page is open to everybody as soon as it is created.',
              options: [
                { value: '', label: lists.data?.length === 0 ? 'There is no list yet' : 'Choose a list' },
                ...(lists.data ?? []).map(({ id, name }) => ({ value: id, label: name })),
              ],
              isRequired: true,
            },
            { name: 'title', label: 'Title', hint: 'The heading of the page.', isRequired: true },
          ]}
          refreshes={['signupForms']}
          run={api.signupForms.create}
          onDone={({ data }) => navigate({ to: '/audience/forms/$id', params: { id: data.id } })}
        />
      }
      navigation={<AudienceNavigation />}
      nothing={{
        title: 'Your sign-up forms will appear here',
        text: 'A form is a public page on which people subscribe to one of your lists. You can link to it, or embed it in a page of your own.',
      }}
    />
  )
}
