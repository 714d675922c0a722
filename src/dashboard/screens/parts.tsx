/** @module All parts in all their states, at `/app/parts`: to look at while one of them is changed. No link leads here. */
import { Button, Group } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { TassisError } from '#client/client.ts'
import { ActionButton, SmallAction } from '../parts/buttons.tsx'
import { Chart } from '../parts/chart.tsx'
import { Copy } from '../parts/copy.tsx'
import { ConfirmButton, DeleteButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import type { Field, Values } from '../parts/fields.ts'
import { Figures } from '../parts/figures.tsx'
import { FilterForm } from '../parts/filter-form.tsx'
import type { Filters, FilterValues } from '../parts/filters.ts'
import { Findings, SEVERITIES } from '../parts/findings.tsx'
import { InlineLink, NameLink, TextLink } from '../parts/links.tsx'
import { NewRows } from '../parts/list.tsx'
import { LongText } from '../parts/long-text.tsx'
import { CommandBlock, EmptyState, ErrorState, Facts, LoadingLines, Page, Section } from '../parts/page.tsx'
import { Menu } from '../parts/popover.tsx'
import { Notice, StatusBadge, StatusLabel } from '../parts/status.tsx'
import { type Column, column, DataTable } from '../parts/table.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { Time } from '../parts/time.tsx'
import type { Tone } from '../parts/tone.ts'

const TONES: readonly Tone[] = ['good', 'warning', 'bad', 'active', 'waiting', 'neutral']
const HOSTILE = '\u202e<b>gnol</b> '.repeat(12)

export default function PartsScreen() {
  const [tab, setTab] = useState<'first' | 'second'>('first')
  return (
    <Page
      title="Parts"
      back={{ label: 'Overview', target: { to: '/' } }}
      status={<StatusLabel tone="good">Verified</StatusLabel>}
      description="Every part that screens are made of, in all of its states."
      action={
        <>
          <Menu label="More actions" actions={[...MENU]} />
          <Button variant="default">Second</Button>
          <Button>Most important</Button>
        </>
      }
    >
      <Buttons />
      <States />
      <Tabs
        label="Tabs"
        tabs={[
          { name: 'first', label: 'First', panel: 'What the first tab shows.' },
          { name: 'second', label: 'Second', panel: 'And the second.' },
        ]}
        value={tab}
        onChange={setTab}
      />
      <Section title="Figures">
        <Figures
          figures={[
            { label: 'Sent', value: 12_840, change: { before: 11_200, now: 12_840 }, series: [3, 5, 4, 8, 9, 12] },
            { label: 'Bounced', value: 12, change: { before: 4, now: 12, isGood: false }, series: [0, 0, 1, 3, 2, 6] },
            { label: 'Emails', value: 0, note: 'with a link', target: { to: '/emails' } },
          ]}
        />
        {[false, true].map((isStacked) => (
          <Chart
            key={String(isStacked)}
            label="Chart of Delivered, Bounced"
            points={['Mon', 'Tue', 'Wed', 'Thu'].map((name) => ({ name, tick: name }))}
            series={[
              { label: 'Delivered', look: 'delivered', values: [3, 5, 4, 8] },
              { label: 'Bounced', look: 'bounced', values: [0, 1, 0, 2] },
            ]}
            isStacked={isStacked}
            height={140}
          />
        ))}
      </Section>
      <Lists />
      <Section title="Without data">
        <LoadingLines rows={3} />
        <EmptyState
          title="No domain yet"
          text="You send from a domain of yours."
          command="tassis domains add example.com"
        >
          <Button>Add a domain</Button>
        </EmptyState>
        <ErrorState error={new TassisError(500, { code: 'internal', message: 'It did not work.' })} onRetry={() => 0} />
      </Section>
      <Texts />
      <Form />
    </Page>
  )
}

const nothing = () => undefined

const MENU = [
  { label: 'Duplicate', onClick: nothing },
  { label: 'Not now', reason: 'It was sent already.', onClick: nothing },
  { label: 'Delete', isDangerous: true, onClick: nothing },
]

const Buttons = () => (
  <Section title="Buttons" description="One filled button a screen; what deletes is red only in its dialog.">
    <Group gap="xs">
      <Button>Save</Button>
      <Button loading>Save</Button>
      <Button variant="default">Cancel</Button>
      <SmallAction onClick={nothing}>Small</SmallAction>
      <ActionButton reason="There is nothing to send." onClick={nothing} label="Not possible" />
      <Copy value="text" what="text" />
      <ConfirmButton label="Send again" title="Send it again?" confirm="Send" isDangerous={false} run={fail}>
        The recipient gets it twice.
      </ConfirmButton>
      <DeleteButton title="Delete it?" typed="example.com" refreshes={[]} remove={fail} />
    </Group>
  </Section>
)

const fail = (): Promise<never> => Promise.reject(new Error('It did not work.'))

const States = () => (
  <Section title="States and notices">
    <Group gap="md">
      {['queued', 'processing', 'sent', 'deferred', 'bounced', 'rejected', 'complained'].map((status) => (
        <StatusBadge key={status} status={status} />
      ))}
    </Group>
    {TONES.map((tone) => (
      <Notice key={tone} tone={tone} title={`A notice: ${tone}`} action={<TextLink to="/emails">See emails</TextLink>}>
        A sentence on what it is, and what to do.
      </Notice>
    ))}
    <Findings label="Findings" findings={[{ key: '1', state: SEVERITIES.bad, text: HOSTILE, advice: 'What to do.' }]} />
  </Section>
)

interface Row {
  readonly id: string
  readonly name: string
  readonly state: string
  readonly count: number
}

const ROWS: readonly Row[] = [
  { id: '1', name: 'bob@example.com', state: 'sent', count: 12 },
  {
    id: '2',
    name: 'a-very-long-address-of-somebody@a-very-long-name-of-a-company.example.com',
    state: 'bounced',
    count: 0,
  },
  { id: '3', name: HOSTILE, state: 'deferred', count: 1_234_567 },
]

const COLUMNS: readonly Column<Row>[] = [
  column('Recipient', {}, ({ id, name }) => <NameLink to="/emails/$id" params={{ id }} name={name} title={name} />),
  column('Status', { width: '9rem', phone: 'bare' }, ({ state }) => <StatusBadge status={state} />),
  column('Count', { width: '7rem', isNumeric: true }, ({ count }) => count.toLocaleString()),
  column('Time', { width: '9rem', phone: 'aside' }, () => <Time iso={new Date().toISOString()} />),
]

const FILTERS: Filters = {
  q: { label: 'Search', placeholder: 'Address, subject or id' },
  status: { label: 'Status', words: { sent: 'Delivered', bounced: 'Bounced' } },
  tag: { label: 'Tag' },
  from_date: { label: 'From' },
  unread: { label: 'Show', words: { true: 'Only unread' } },
}

function Lists() {
  const [values, setValues] = useState<FilterValues>({ status: 'sent', tag: HOSTILE })
  return (
    <Section title="List">
      <FilterForm filters={FILTERS} values={values} onChange={setValues} />
      <NewRows
        list={{ page: { data: [] }, newCount: 3, hasChanged: true, show: nothing, reload: async () => undefined }}
      />
      <DataTable label="Rows" columns={COLUMNS} rows={ROWS} />
    </Section>
  )
}

const LAST_YEAR = '2025-03-04T05:06:07.000Z'

const FACTS: readonly (readonly [string, ReactNode])[] = [
  ['Today', <Time key="now" iso={new Date().toISOString()} isRelative />],
  ['Last year', <Time key="then" iso={LAST_YEAR} />],
  ['In a log', <Time key="log" iso={new Date().toISOString()} hasSeconds />],
  ['Hostile', HOSTILE],
  [
    'Link in a sentence',
    <span key="link">
      It was sent to <InlineLink to="/emails">this address</InlineLink>.
    </span>,
  ],
]

const Texts = () => (
  <Section title="Texts" isCard action={<SmallAction onClick={nothing}>Edit</SmallAction>}>
    <Facts facts={FACTS} />
    <CommandBlock command="curl https://mail.example.com/v1/emails" />
    <LongText label="Dialogue" text={'220 mx.example.com ESMTP\n250 2.0.0 OK'} />
  </Section>
)

const FIELDS: readonly Field[] = [
  { name: 'name', label: 'Name', hint: 'Shown to your team only.', isRequired: true },
  { name: 'email', label: 'Address', kind: 'email' },
  { name: 'count', label: 'Limit', kind: 'number' },
  { name: 'at', label: 'Send at', kind: 'time' },
  { name: 'kind', label: 'Kind', kind: 'choice', options: ['One', 'Two'] },
  {
    name: 'access',
    label: 'Access',
    kind: 'radio',
    options: [
      { value: 'full', label: 'Full', description: 'May do everything.' },
      { value: 'send', label: 'Sending', description: 'May only send.' },
    ],
  },
  { name: 'text', label: 'Text', kind: 'lines', rows: [2, 4] },
  { name: 'data', label: 'Data', kind: 'json' },
  { name: 'is_on', label: 'Count opens', kind: 'switch', hint: 'Adds an image to the mail.' },
  { name: 'agreed', label: 'Also replay 3 events', kind: 'check' },
]

const PROBLEMS = [
  { field: 'name', message: 'A name must have at least 3 characters.' },
  { field: 'email', message: 'This is not an address.' },
]

const Form = () => (
  <Section title="Form">
    <FieldForm
      aria-label="Form"
      maw={480}
      fields={FIELDS}
      run={(_: Values) =>
        Promise.reject(
          new TassisError(422, { code: 'validation_error', message: 'The request is not valid.', details: PROBLEMS }),
        )
      }
    />
  </Section>
)
