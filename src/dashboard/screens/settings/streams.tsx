/** @module Streams: kinds of mail whose reputation is counted separately. */
import { Code } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { StreamSummary } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { FormButton } from '../../parts/dialog.tsx'
import { toWords } from '../../parts/fields.ts'
import { toSlug } from '../../parts/format.ts'
import { NameLink } from '../../parts/links.tsx'
import { ListScreen, useList } from '../../parts/list.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'

const MAX_SLUG_LENGTH = 63

const COLUMNS: readonly Column<StreamSummary>[] = [
  {
    header: 'Name',
    width: '35%',
    cell: ({ id, name }) => <NameLink to="/settings/streams/$id" params={{ id }} name={name} title={name} />,
  },
  { header: 'Slug', phone: 'bare', cell: ({ slug }) => <Code>{slug}</Code> },
  { header: 'Priority', width: '14%', cell: ({ priority }) => toWords(priority) },
  { header: 'Created', width: '18%', phone: 'none', cell: ({ created_at: at }) => <Time iso={at} /> },
]

export default function StreamsScreen() {
  const list = useList({ read: read.streams.list })
  const navigate = useNavigate()
  return (
    <ListScreen
      frame={SettingsPage}
      title="Streams"
      list={list}
      columns={COLUMNS}
      noun="stream"
      action={
        <FormButton
          label="Create a stream"
          needs="developer"
          confirm="Create"
          fields={[
            { name: 'name', label: 'Name', isRequired: true },
            {
              name: 'slug',
              label: 'Slug',
              kind: 'code',
              hint: 'What a send names it by: a to z, 0 to 9 and hyphens.',
              isRequired: true,
            },
          ]}
          initial={({ name = '' }) => ({ slug: toSlug(String(name), MAX_SLUG_LENGTH) })}
          refreshes={['streams']}
          run={api.streams.create}
          onDone={({ data: { id } }) => navigate({ to: '/settings/streams/$id', params: { id } })}
        />
      }
      description={
        <>
          A kind of mail, such as receipts, whose bounces and complaints are counted on their own. A send names it with{' '}
          <Code>stream</Code>; else it is <Code>transactional</Code>.
        </>
      }
      nothing={{ title: 'Your streams will appear here' }}
    />
  )
}
