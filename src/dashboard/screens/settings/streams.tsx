/** @module Streams: kinds of mail whose reputation is counted separately. */
import { Code, Text, TextInput } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { StreamRecord } from '#features/setup/streams/model.ts'
import { type PageOf, requestData } from '../../api/client.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton, DialogFrame, findFieldError, omitFieldErrors } from '../../parts/form.tsx'
import { NameLink } from '../../parts/links.tsx'
import { EmptyState, QueryView } from '../../parts/page.tsx'
import { type Column, DataTable, Pages } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { toSlug } from './format.ts'
import { SettingsPage } from './frame.tsx'
import { useChange, useRead } from './queries.ts'

const PER_PAGE = 50

const COLUMNS: readonly Column<StreamRecord>[] = [
  {
    header: 'Name',
    width: '35%',
    cell: ({ id, name }) => <NameLink to="/settings/streams/$id" id={id} name={name} title={name} />,
  },
  { header: 'Slug', cell: ({ slug }) => <Code>{slug}</Code> },
  { header: 'Priority', width: '12%', cell: ({ priority }) => priority },
  { header: 'Created', width: '18%', cell: ({ created_at: at }) => <Time iso={at} /> },
  { header: 'Changed', width: '18%', cell: ({ updated_at: at }) => <Time iso={at} /> },
]

export default function StreamsScreen() {
  const { page = 1 } = useSearch({ from: '/settings/streams' })
  const query = useRead<PageOf<StreamRecord>>(['streams', 'list'], '/v1/streams', { page, per_page: PER_PAGE })
  const reason = useAllowed('developer')
  const [isCreating, setIsCreating] = useState(false)
  const create = (
    <ActionButton reason={reason} onClick={() => setIsCreating(true)}>
      Create a stream
    </ActionButton>
  )
  const isEmpty = query.data?.pagination.total === 0
  return (
    <SettingsPage title="Streams" action={isEmpty ? undefined : create}>
      <Text size="sm" maw={640}>
        A stream is a kind of mail, such as receipts or news. Name it in a send with <Code>stream</Code>, and its
        bounces and complaints are counted on their own. Mail without one goes to <Code>transactional</Code>.
      </Text>
      <QueryView query={query}>
        {({ data, pagination }) =>
          pagination.total === 0 ? (
            <EmptyState title="Your streams will appear here">{create}</EmptyState>
          ) : (
            <>
              <DataTable label="Streams, newest first" columns={COLUMNS} rows={data} toKey={({ id }) => id} />
              {data.length === 0 && <Text>There are no streams on this page.</Text>}
              <Pages path="/settings/streams" page={page} totalPages={pagination.total_pages} />
            </>
          )
        }
      </QueryView>
      {isCreating && <CreateDialog onClose={() => setIsCreating(false)} />}
    </SettingsPage>
  )
}

function CreateDialog({ onClose }: { onClose(): void }) {
  const [name, setName] = useState('')
  const [typedSlug, setTypedSlug] = useState<string>()
  const slug = typedSlug ?? toSlug(name)
  const navigate = useNavigate()
  const create = useChange(
    () => requestData<StreamRecord>('POST', '/v1/streams', { body: { name: name.trim(), slug } }),
    ['streams'],
  )
  return (
    <DialogFrame
      title="Create a stream"
      confirm="Create"
      work={{ isPending: create.isPending, error: omitFieldErrors(create.error, 'name', 'slug') }}
      isIncomplete={name.trim() === '' || slug === ''}
      onConfirm={() =>
        create.mutate(undefined, {
          onSuccess: ({ id }) => navigate({ to: '/settings/streams/$id', params: { id } as never }),
        })
      }
      onClose={onClose}
    >
      <TextInput
        label="Name"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        error={findFieldError(create.error, 'name')}
        maxLength={200}
        dir="auto"
        autoComplete="off"
        required
        data-autofocus
      />
      <TextInput
        label="Slug"
        description="What a send names it by: a to z, 0 to 9 and hyphens."
        value={slug}
        onChange={(event) => setTypedSlug(event.currentTarget.value)}
        error={findFieldError(create.error, 'slug')}
        maxLength={63}
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        required
      />
    </DialogFrame>
  )
}
