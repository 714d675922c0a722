/** @module One stream: its reputation, its name, slug, priority and expiry, and its deletion. */
import { Alert, Code, NativeSelect, NumberInput, Text, TextInput } from '@mantine/core'
import { useNavigate, useParams } from '@tanstack/react-router'
import type { Stream, UpdateStreamRequest } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { bindText, DeleteButton, Form, FormError, findFieldError, SaveRow, useEdit } from '../../parts/form.tsx'
import { SmallLink } from '../../parts/links.tsx'
import { Facts, QueryView, Section, useEscape } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'

type StreamPriority = Stream['priority']

/** In the order in which mail goes. */
const PRIORITY_OPTIONS: readonly { readonly value: StreamPriority; readonly label: string }[] = [
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
          ['Created', <Time key="created" iso={created} isExact />],
        ]}
      />
      <Text size="sm">
        Recipients, without sandbox mail.{' '}
        <SmallLink to="/emails" search={{ stream: slug }} underline="always">
          See the emails of this stream
        </SmallLink>
      </Text>
    </Section>
  )
}

function StreamForm({ stream }: StreamProps) {
  const roleReason = useAllowed('developer')
  const { changes, set, save, isUnchanged, submit } = useEdit(
    (body: UpdateStreamRequest) => api.streams.update(stream.id, body),
    roleReason,
    'streams',
  )
  const isDefault = stream.slug === DEFAULT_SLUG
  const expiresIn = changes.expires_in === undefined ? stream.expires_in : changes.expires_in
  const field = (name: 'name' | 'slug') => ({
    w: '100%',
    ...bindText(changes[name] ?? stream[name], (value) => set({ [name]: value })),
    error: findFieldError(save.error, name),
    autoComplete: 'off',
  })
  return (
    <Section id="change" title="Name, slug, priority and expiry">
      <Form onSubmit={submit} aria-labelledby="change" maw={480} align="flex-start">
        {roleReason !== undefined && <Alert color="gray">{roleReason}</Alert>}
        <TextInput {...field('name')} label="Name" maxLength={200} dir="auto" readOnly={roleReason !== undefined} />
        <TextInput
          {...field('slug')}
          label="Slug"
          description={
            isDefault ? DEFAULT_REASON : 'Sends that still name the old slug are rejected once it is changed.'
          }
          readOnly={isDefault || roleReason !== undefined}
          autoCapitalize="none"
          spellCheck={false}
        />
        <NativeSelect
          label="Priority"
          description="Which mail of this account goes first while it waits. Broadcasts come last. A change applies to new mail."
          data={PRIORITY_OPTIONS}
          {...bindText(changes.priority ?? stream.priority, (value) => set({ priority: value as StreamPriority }))}
          disabled={roleReason !== undefined}
        />
        <NumberInput
          w="100%"
          label="Mail expires after (seconds)"
          description="What is not delivered by then ends as bounced: 600 for a code that is valid for ten minutes. Empty: the default of the service. A send may have its own."
          value={expiresIn ?? ''}
          onChange={(value) => set({ expires_in: typeof value === 'number' ? value : null })}
          error={findFieldError(save.error, 'expires_in')}
          allowDecimal={false}
          allowNegative={false}
          hideControls
          readOnly={roleReason !== undefined}
        />
        <FormError error={save.error} fields={['name', 'slug', 'expires_in']} />
        <SaveRow save={save} isUnchanged={isUnchanged} reason={roleReason} />
      </Form>
    </Section>
  )
}

const DeleteStream = ({ stream }: StreamProps) => (
  <Section title="Delete" align="flex-start">
    <DeleteButton
      label="Delete this stream"
      reason={stream.slug === DEFAULT_SLUG ? DEFAULT_REASON : undefined}
      title="Delete this stream?"
      confirm="Delete"
      typed={stream.slug}
      remove={() => api.streams.delete(stream.id)}
      refreshes={[['streams', 'list']]}
      leadsTo="/settings/streams"
    >
      <Text>
        Sends that name <Code>{stream.slug}</Code> are then rejected. Emails of the stream stay. It cannot be deleted
        while mail of it is queued or scheduled.
      </Text>
    </DeleteButton>
  </Section>
)
