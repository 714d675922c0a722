/** @module The sequences of the account; and one of them: its people, its steps and settings. */
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import type { CreateSequenceRequest, Sequence, SequencePerson } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { DeleteButton, FormButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import type { Field } from '../parts/fields.ts'
import { NameLink, PersonLink } from '../parts/links.tsx'
import { ListScreen, ListView, useList } from '../parts/list.tsx'
import { EmptyState, RecordPage, Section } from '../parts/page.tsx'
import { StateLabel } from '../parts/status.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import type { State } from '../parts/tone.ts'
import { AudienceNavigation } from './audience/parts.tsx'
import { useAllLists } from './queries.ts'

const STATES: Readonly<Record<string, State>> = {
  draft: { word: 'Draft', tone: 'neutral', title: 'Nobody enters.' },
  active: { word: 'Active', tone: 'good' },
  paused: { word: 'Paused', tone: 'warning', title: 'Who enters waits.' },
  finished: { word: 'Finished', tone: 'neutral' },
}

/** Of a sequence, or of a person with the reason why it was stopped or waits. */
function toState(status: string, reason: string | null = null): State {
  if (status === 'active' && reason !== null) return { word: 'Waiting', tone: 'warning', title: reason }
  return STATES[status] ?? { word: `Stopped: ${reason}`, tone: 'neutral' }
}

const COLUMNS: readonly Column<Sequence>[] = [
  {
    header: 'Sequence',
    cell: ({ id, name }) => <NameLink to="/audience/sequences/$id" params={{ id }} name={name} title={name} />,
  },
  { header: 'Status', width: '9rem', phone: 'bare', cell: ({ status }) => <StateLabel state={toState(status)} /> },
  { header: 'Begins with', phone: 'none', cell: ({ event }) => (event ? <bdi>{event}</bdi> : 'A contact of a list') },
  { header: 'Steps', width: '6rem', isNumeric: true, cell: ({ steps }) => steps.length },
  { header: 'Created', width: '9rem', phone: 'aside', cell: ({ created_at: at }) => <Time iso={at} /> },
]

/** As typed: a line for each step. */
type Inputs = Omit<CreateSequenceRequest, 'steps'> & { readonly steps?: string | null }

const formatSteps = ({ steps }: Sequence): string =>
  steps.map(({ delay, template_alias: alias }) => `${delay} ${alias}`).join('\n')

function toRequest({ steps, ...settings }: Inputs): CreateSequenceRequest {
  if (steps === undefined) return settings
  const lines = (steps ?? '').split('\n').map((line) => line.trim().split(/\s+/))
  const typed = lines.filter(([delay]) => delay !== '')
  return { ...settings, steps: typed.map(([delay = '', ...alias]) => ({ delay, template_alias: alias.join(' ') })) }
}

/** @param inactive the status that it may have instead of active */
function useFields(inactive: 'draft' | 'paused'): readonly Field<keyof Inputs>[] {
  const { data: lists = [] } = useAllLists()
  return [
    { name: 'name', hint: 'Only your team sees it.', isRequired: true },
    { name: 'from', label: 'Sender', placeholder: 'Ada <ada@example.com>', isRequired: true },
    {
      name: 'list_id',
      label: 'Contact list',
      kind: 'choice',
      options: [{ value: '', label: 'None: an event' }, ...lists.map(({ id, name }) => ({ value: id, label: name }))],
      hint: 'Its new contacts enter, once they have confirmed.',
    },
    { name: 'event', kind: 'code', hint: 'Without a list: your program names it with an address.' },
    { name: 'stop_event', label: 'Event that stops', kind: 'code', placeholder: 'purchased' },
    {
      name: 'steps',
      kind: 'lines',
      rows: [3, 20],
      placeholder: '0 welcome\n3d first-steps',
      hint: 'One email a line: the delay after the one before (0, 30m, 2h, 3d) and the alias of its template.',
    },
    {
      name: 'status',
      kind: 'choice',
      options: [inactive, 'active'].map((value) => ({ value, label: STATES[value]?.word ?? value })),
      hint: 'Nobody enters a draft. While it is paused, who is in it waits.',
    },
  ]
}

export default function SequencesScreen() {
  const list = useList({ read: read.sequences.list })
  const navigate = useNavigate()
  return (
    <ListScreen
      title="Sequences"
      list={list}
      columns={COLUMNS}
      noun="sequence"
      navigation={<AudienceNavigation />}
      action={
        <FormButton
          label="Create a sequence"
          needs="developer"
          confirm="Create"
          fields={useFields('draft').filter(({ name }) => name !== 'status')}
          refreshes={['sequences']}
          run={(inputs: Inputs) => api.sequences.create(toRequest(inputs))}
          onDone={({ data: { id } }) => navigate({ to: '/audience/sequences/$id', params: { id } })}
        />
      }
      nothing={{
        title: 'Your sequences will appear here',
        text: 'A sequence sends each person one email after the other, such as a welcome and, three days later, the first steps.',
      }}
    />
  )
}

const route = getRouteApi('/audience/sequences/$id')

export function SequenceScreen() {
  const { id } = route.useParams()
  const query = useData(read.sequences.get(id))
  const people = useList({ read: (page) => read.sequences.listPersons(id, page), isSteady: true })
  return (
    <RecordPage
      title={query.data?.name ?? 'Sequence'}
      status={query.data && <StateLabel state={toState(query.data.status)} />}
      action={
        query.data && (
          <DeleteButton
            noun="sequence"
            remove={() => api.sequences.delete(id)}
            refreshes={[['sequences', 'list']]}
            leadsTo={{ to: '/audience/sequences' }}
          >
            Its people get no further email.
          </DeleteButton>
        )
      }
      list={{ to: '/audience/sequences' }}
      listName="All sequences"
      query={query}
    >
      {(sequence) => (
        <>
          <Section title="Settings">
            <Settings sequence={sequence} />
          </Section>
          <Section title="People">
            <ListView
              list={people}
              columns={PEOPLE}
              noun="person"
              empty={<EmptyState title="People who enter will appear here" />}
            />
          </Section>
        </>
      )}
    </RecordPage>
  )
}

const Settings = ({ sequence }: { readonly sequence: Sequence }) => (
  <FieldForm
    maw={640}
    needs="developer"
    fields={useFields(sequence.status === 'draft' ? 'draft' : 'paused')}
    stored={useMemo(() => ({ ...sequence, steps: formatSteps(sequence) }), [sequence])}
    refreshes={['sequences']}
    run={(inputs: Inputs) => api.sequences.update(sequence.id, toRequest(inputs))}
  />
)

const PEOPLE: readonly Column<SequencePerson>[] = [
  { header: 'Address', cell: ({ email }) => <PersonLink address={email} /> },
  {
    header: 'Status',
    width: '12rem',
    phone: 'bare',
    cell: ({ status, reason }) => <StateLabel state={toState(status, reason)} />,
  },
  { header: 'Sent', width: '5rem', isNumeric: true, cell: ({ steps_sent: sent }) => sent },
  { header: 'Next', width: '9rem', cell: ({ next_due_at: at }) => at && <Time iso={at} /> },
  { header: 'Entered', width: '9rem', phone: 'aside', cell: ({ created_at: at }) => <Time iso={at} /> },
]
