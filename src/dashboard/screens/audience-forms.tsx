/** @module The sign-up forms of the account. */
import { NativeSelect, Text, TextInput } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { FormRecord } from '#features/audience/signup-forms/model.ts'
import { useAllLists, useCreateForm, useForms } from '../api/audience.ts'
import { ApiError } from '../api/client.ts'
import { useAllowed } from '../api/session.tsx'
import { ActionButton, DialogFrame, findFieldError } from '../parts/form.tsx'
import { NameLink } from '../parts/links.tsx'
import { EmptyState, Page, QueryView } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import { type Column, DataTable, Pages } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { AudienceNavigation } from './audience/parts.tsx'

export default function AudienceFormsScreen() {
  const { page = 1 } = useSearch({ from: '/audience/forms' })
  const query = useForms(page)
  const lists = useAllLists()
  const reason = useAllowed('developer')
  const [isCreating, setIsCreating] = useState(false)
  const names = new Map(lists.data?.map(({ id, name }) => [id, name]))
  const columns: readonly Column<FormRecord>[] = [
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
    <ActionButton reason={reason} onClick={() => setIsCreating(true)}>
      New form
    </ActionButton>
  )
  const isEmpty = query.data?.pagination.total === 0
  return (
    <Page title="Sign-up forms" action={isEmpty ? undefined : create}>
      <AudienceNavigation />
      <QueryView query={query}>
        {({ data, pagination }) =>
          pagination.total === 0 ? (
            <EmptyState title="Your sign-up forms will appear here">
              <Text maw={640}>
                A form is a public page on which people subscribe to one of your lists. You can link to it, or embed it
                in a page of your own.
              </Text>
              {create}
            </EmptyState>
          ) : (
            <>
              <DataTable label="Sign-up forms, newest first" columns={columns} rows={data} toKey={({ id }) => id} />
              {data.length === 0 && <Text>There are no forms on this page.</Text>}
              <Pages path="/audience/forms" page={page} totalPages={pagination.total_pages} />
            </>
          )
        }
      </QueryView>
      {isCreating && <CreateDialog onClose={() => setIsCreating(false)} />}
    </Page>
  )
}

function CreateDialog({ onClose }: { onClose(): void }) {
  const lists = useAllLists()
  const [listId, setListId] = useState('')
  const [title, setTitle] = useState('')
  const create = useCreateForm()
  const navigate = useNavigate()
  const { error } = create
  const listError = error instanceof ApiError && error.code === 'signup_form_exists' ? error.message : undefined
  const titleError = findFieldError(error, 'title')
  return (
    <DialogFrame
      title="New sign-up form"
      confirm="Create the form"
      work={{
        isPending: create.isPending,
        error: listError === undefined && titleError === undefined ? (error ?? lists.error) : undefined,
      }}
      isIncomplete={listId === '' || title.trim() === ''}
      onConfirm={() =>
        create.mutate(
          { list_id: listId, title: title.trim() },
          { onSuccess: ({ id }) => void navigate({ to: '/audience/forms/$id', params: { id } }) },
        )
      }
      onClose={onClose}
    >
      <NativeSelect
        label="List"
        description="A list has at most one form. The page is open to everybody as soon as it is created."
        value={listId}
        onChange={(event) => setListId(event.currentTarget.value)}
        error={listError}
        required
        data-autofocus
        data={[
          { value: '', label: lists.data?.length === 0 ? 'There is no list yet' : 'Choose a list' },
          ...(lists.data ?? []).map(({ id, name }) => ({ value: id, label: name })),
        ]}
      />
      <TextInput
        label="Title"
        description="The heading of the page."
        value={title}
        onChange={(event) => setTitle(event.currentTarget.value)}
        error={titleError}
        maxLength={200}
        required
        autoComplete="off"
      />
    </DialogFrame>
  )
}
