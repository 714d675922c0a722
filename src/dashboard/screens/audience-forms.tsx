/** @module The sign-up forms of the account. */
import { NativeSelect, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { SignupForm } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api, read } from '../api/client.ts'
import { useStore } from '../api/data.ts'
import { DialogButton, DialogFrame, useFields } from '../parts/form.tsx'
import { NameLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { EmptyState } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { AudienceNavigation } from './audience/parts.tsx'
import { useAllLists } from './audience/queries.ts'

export default function AudienceFormsScreen() {
  const list = useList({ read: read.signupForms.list })
  const lists = useAllLists()
  const names = new Map(lists.data?.map(({ id, name }) => [id, name]))
  const columns: readonly Column<SignupForm>[] = [
    {
      header: 'Form',
      cell: ({ id, title }) => <NameLink to="/audience/forms/$id" id={id} name={title} />,
    },
    { header: 'List', cell: ({ list_id: id }) => <bdi>{names.get(id) ?? '…'}</bdi> },
    {
      header: 'State',
      width: '14%',
      cell: ({ is_active: isActive }) => (
        <StatusLabel tone={isActive ? 'good' : 'neutral'}>{isActive ? 'On' : 'Off'}</StatusLabel>
      ),
    },
    { header: 'Created', width: '18%', cell: ({ created_at: at }) => <Time iso={at} /> },
  ]
  const create = (
    <DialogButton label="New form" needs="developer">
      {(close) => <CreateDialog onClose={close} />}
    </DialogButton>
  )
  return (
    <ListScreen
      title="Sign-up forms"
      list={list}
      label="Sign-up forms, newest first"
      columns={columns}
      noun="form"
      action={create}
      above={<AudienceNavigation />}
      empty={
        <EmptyState
          title="Your sign-up forms will appear here"
          text="A form is a public page on which people subscribe to one of your lists. You can link to it, or embed it in a page of your own."
        >
          {create}
        </EmptyState>
      }
    />
  )
}

function CreateDialog({ onClose }: { onClose(): void }) {
  const lists = useAllLists()
  const create = useStore(api.signupForms.create, ({ data }) => read.signupForms.get(data.id), ['signupForms', 'list'])
  const { values, field, fields } = useFields({ list_id: '', title: '' }, create.error)
  const navigate = useNavigate()
  const { error } = create
  const listError = error instanceof TassisError && error.code === 'signup_form_exists' ? error.message : undefined
  return (
    <DialogFrame
      title="New sign-up form"
      confirm="Create the form"
      work={{ isPending: create.isPending, error: listError === undefined ? (error ?? lists.error) : undefined }}
      fields={fields}
      isIncomplete={values.list_id === '' || values.title.trim() === ''}
      onConfirm={() =>
        create.mutate(
          { ...values, title: values.title.trim() },
          { onSuccess: ({ data }) => void navigate({ to: '/audience/forms/$id', params: { id: data.id } }) },
        )
      }
      onClose={onClose}
    >
      <NativeSelect
        {...field('list_id')}
        error={listError}
        label="List"
        description="A list has at most one form. The page is open to everybody as soon as it is created."
        required
        data-autofocus
        data={[
          { value: '', label: lists.data?.length === 0 ? 'There is no list yet' : 'Choose a list' },
          ...(lists.data ?? []).map(({ id, name }) => ({ value: id, label: name })),
        ]}
      />
      <TextInput
        {...field('title')}
        label="Title"
        description="The heading of the page."
        maxLength={200}
        required
        autoComplete="off"
      />
    </DialogFrame>
  )
}
