/** @module Streams: kinds of mail whose reputation is counted separately; and one of them. */
import { Code, Text } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import type { Stream, StreamSummary, UpdateStreamRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { DeleteButton, FormButton } from '../../parts/dialog.tsx'
import { FieldForm } from '../../parts/field-form.tsx'
import { toWords } from '../../parts/fields.ts'
import { Figures } from '../../parts/figures.tsx'
import { toSlug } from '../../parts/format.ts'
import { InlineLink, NameLink } from '../../parts/links.tsx'
import { ListScreen, useList } from '../../parts/list.tsx'
import { RecordPage, Section } from '../../parts/page.tsx'
import { type Column, column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { toStreamFigures } from '../analytics/totals.tsx'
import { SettingsPage } from './frame.tsx'

const MAX_SLUG_LENGTH = 63

const COLUMNS: readonly Column<StreamSummary>[] = [
  column('Name', { width: '35%' }, ({ id, name }) => (
    <NameLink to="/settings/streams/$id" params={{ id }} name={name} title={name} />
  )),
  column('Slug', { phone: 'bare' }, ({ slug }) => <Code>{slug}</Code>),
  column('Priority', { width: '14%' }, ({ priority }) => toWords(priority)),
  column('Created', { width: '18%', phone: 'none' }, ({ created_at: at }) => <Time iso={at} />),
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

/** In the order in which mail goes. */
const PRIORITY_OPTIONS: readonly { readonly value: Stream['priority']; readonly label: string }[] = [
  { value: 'high', label: 'High: password resets and codes' },
  { value: 'normal', label: 'Normal: receipts and notices' },
  { value: 'low', label: 'Low: digests and summaries' },
]

/** The stream of sends that name none. */
const DEFAULT_SLUG = 'transactional'
const DEFAULT_REASON = 'Every send without a stream uses this one, so it keeps its slug and cannot be deleted.'

export function StreamScreen() {
  const { id } = useParams({ from: '/settings/streams/$id' })
  const query = useData(read.streams.get(id))
  return (
    <RecordPage
      title={query.data?.name ?? 'Stream'}
      list={{ to: '/settings/streams' }}
      listName="Streams"
      query={query}
    >
      {(data) => (
        <>
          <Reputation stream={data} />
          <StreamForm key={data.id} stream={data} />
          <DeleteStream stream={data} />
        </>
      )}
    </RecordPage>
  )
}

interface StreamProps {
  readonly stream: Stream
}

const Reputation = ({ stream }: StreamProps) => (
  <Section
    title={`Last ${stream.reputation.period_days} days`}
    description="Recipients, without captured mail."
    action={<InlineLink to="/emails" search={{ stream: stream.slug }} name="Its emails" />}
  >
    <Figures figures={toStreamFigures(stream)} />
  </Section>
)

function StreamForm({ stream }: StreamProps) {
  const isDefault = stream.slug === DEFAULT_SLUG
  return (
    <Section id="change" title="Settings">
      <FieldForm
        aria-labelledby="change"
        maw={480}
        needs="developer"
        stored={stream}
        run={(body: UpdateStreamRequest) => api.streams.update(stream.id, body)}
        refreshes={['streams']}
        fields={[
          { name: 'name', label: 'Name', isRequired: true },
          {
            name: 'slug',
            label: 'Slug',
            kind: 'code',
            hint: isDefault ? DEFAULT_REASON : 'Sends that still name the old slug are rejected once it is changed.',
            isFixed: isDefault,
            isRequired: true,
          },
          {
            name: 'priority',
            label: 'Priority',
            kind: 'choice',
            hint: 'Which mail goes first while it waits. It applies to new mail.',
            options: PRIORITY_OPTIONS,
          },
          {
            name: 'expires_in',
            label: 'Mail expires after (seconds)',
            kind: 'number',
            hint: 'Then it ends as bounced: 600 for a code of ten minutes. Empty: the default.',
          },
        ]}
      />
    </Section>
  )
}

const DeleteStream = ({ stream }: StreamProps) => (
  <Section
    title="Delete"
    description="Sends that name this stream are then rejected."
    action={
      <DeleteButton
        label="Delete this stream"
        reason={stream.slug === DEFAULT_SLUG ? DEFAULT_REASON : undefined}
        noun="stream"
        typed={stream.slug}
        remove={() => api.streams.delete(stream.id)}
        refreshes={[['streams', 'list']]}
        leadsTo={{ to: '/settings/streams' }}
      >
        <Text>
          Sends that name <Code>{stream.slug}</Code> are then rejected. Emails of the stream stay. It cannot be deleted
          while mail of it is queued or scheduled.
        </Text>
      </DeleteButton>
    }
  />
)
