/** @module One stream: its reputation, its name, slug, priority and expiry, and its deletion. */
import { Code, Text } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import type { Stream, UpdateStreamRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { DeleteButton } from '../../parts/dialog.tsx'
import { FieldForm } from '../../parts/field-form.tsx'
import { TextLink } from '../../parts/links.tsx'
import { Facts, QueryView, Section, useEscape } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'

/** In the order in which mail goes. */
const PRIORITY_OPTIONS: readonly { readonly value: Stream['priority']; readonly label: string }[] = [
  { value: 'high', label: 'High: password resets and codes' },
  { value: 'normal', label: 'Normal: receipts and notices' },
  { value: 'low', label: 'Low: digests and summaries' },
]

/** The stream of sends that name none. */
const DEFAULT_SLUG = 'transactional'
const DEFAULT_REASON = 'Every send without a stream uses this one, so it keeps its slug and cannot be deleted.'

export default function StreamScreen() {
  const { id } = useParams({ from: '/settings/streams/$id' })
  const query = useData(read.streams.get(id))
  const navigate = useNavigate()
  useEscape(() => void navigate({ to: '/settings/streams' }))
  return (
    <SettingsPage title={query.data?.name ?? 'Stream'} list={{ label: 'All streams', to: '/settings/streams' }}>
      <QueryView query={query}>
        {(data) => (
          <>
            <Reputation stream={data} />
            <StreamForm key={data.id} stream={data} />
            <DeleteStream stream={data} />
          </>
        )}
      </QueryView>
    </SettingsPage>
  )
}

interface StreamProps {
  readonly stream: Stream
}

const PERCENT = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 2 })

const toShare = (count: number, rate: number | null): string =>
  `${count.toLocaleString()}${rate === null ? '' : ` (${PERCENT.format(rate)})`}`

function Reputation({ stream: { slug, reputation, created_at: created } }: StreamProps) {
  return (
    <Section title={`Last ${reputation.period_days} days`}>
      <Facts
        facts={[
          ['Sent', reputation.sent.toLocaleString()],
          ['Delivered', reputation.delivered.toLocaleString()],
          ['Bounced', toShare(reputation.bounced, reputation.bounce_rate)],
          ['Complaints', toShare(reputation.complained, reputation.complaint_rate)],
          ['Created', <Time key="created" iso={created} />],
        ]}
      />
      <Text size="sm">
        Recipients, without sandbox mail.{' '}
        <TextLink to="/emails" search={{ stream: slug }} underline="always">
          See the emails of this stream
        </TextLink>
      </Text>
    </Section>
  )
}

function StreamForm({ stream }: StreamProps) {
  const isDefault = stream.slug === DEFAULT_SLUG
  return (
    <Section id="change" title="Name, slug, priority and expiry">
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
            hint: 'Which mail of this account goes first while it waits. Broadcasts come last. A change applies to new mail.',
            options: PRIORITY_OPTIONS,
          },
          {
            name: 'expires_in',
            label: 'Mail expires after (seconds)',
            kind: 'number',
            hint: 'What is not delivered by then ends as bounced: 600 for a code that is valid for ten minutes. Empty: the default of the service. A send may have its own.',
          },
        ]}
      />
    </Section>
  )
}

const DeleteStream = ({ stream }: StreamProps) => (
  <Section title="Delete">
    <DeleteButton
      label="Delete this stream"
      reason={stream.slug === DEFAULT_SLUG ? DEFAULT_REASON : undefined}
      title="Delete this stream?"
      confirm="Delete"
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
  </Section>
)
