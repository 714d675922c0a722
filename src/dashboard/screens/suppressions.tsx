/** @module The suppression list: who gets no mail of this account, and why; and the import of another list. */
import { Button, Code, FileInput, Group, NativeSelect, Stack, Text, Textarea } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import type { Suppression } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useChange } from '../api/data.ts'
import { useAllowed, useSession } from '../api/session.tsx'
import { ActionButton } from '../parts/buttons.tsx'
import { FormButton, LeaveGuard } from '../parts/dialog.tsx'
import { bindText, FormError } from '../parts/form.tsx'
import { formatCount } from '../parts/format.ts'
import { LineProblems } from '../parts/line-problems.tsx'
import { ButtonLink, NameLink, TextLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { LongText } from '../parts/long-text.tsx'
import { EmptyState, Page } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import { type Column, column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { SUPPRESSION_FILTERS } from './filters.ts'
import {
  ALL_MAIL,
  describeScope,
  findReason,
  isErased,
  MANUAL,
  OTHER,
  OTHER_OPTION,
  REASON_OPTIONS,
  UNSUBSCRIBE,
} from './suppressions/reasons.ts'
import { RemoveSuppression } from './suppressions/remove.tsx'

export default function SuppressionsScreen() {
  const reason = useAllowed('developer')
  const { role } = useSession()
  const list = useList({
    read: read.suppressions.list,
    filters: SUPPRESSION_FILTERS,
    isSteady: true,
    isConcerned: ({ event_type: type }) => ADDS_ROWS.includes(type),
  })
  const reload = () => void list.reload()
  const add = <AddButton reason={reason} onDone={reload} />
  return (
    <ListScreen
      title="Suppressions"
      list={list}
      columns={toColumns(reload)}
      noun="suppression"
      action={
        <>
          {role !== 'support' && (
            <>
              <ButtonLink variant="default" to="/suppressions/import" name="Import" />
              <Button variant="default" component="a" href={read.suppressions.export().url} download="suppressions.csv">
                Export
              </Button>
            </>
          )}
          {add}
        </>
      }
      empty={<Nothing add={add} />}
      advice="An address is searched as a whole, in any spelling. One that is not found here is not suppressed: mail to it is sent."
    />
  )
}

const Nothing = ({ add }: { readonly add: ReactNode }) => (
  <EmptyState
    title="Addresses that get no mail will appear here"
    text="An address is added when its mailbox does not exist, when its owner reports spam or unsubscribes, or by you. Mail to it is not sent, which keeps your reputation."
  >
    {add}
    <Text>
      Do you come from another service? <TextLink to="/suppressions/import" underline="always" name="Import its list" />
      , so that nobody who left gets mail again.
    </Text>
    <Text size="sm">
      On the server: <Code>tassis suppressions import list.csv</Code>
    </Text>
  </EmptyState>
)

const ADDS_ROWS: readonly string[] = ['bounced', 'complained', 'unsubscribed']

const toColumns = (onRemoved: () => void): readonly Column<Suppression>[] => [
  column('Address', {}, ({ email_address: address }) => <Address address={address} />),
  column('Reason', { width: '28%', phone: 'bare' }, (row) => <Reason row={row} />),
  column('Caused by', { width: '8rem', phone: 'bare' }, ({ source_email_id: id }) =>
    id === null ? '' : <TextLink to="/emails/$id" params={{ id }} c="dimmed" name="See the email" />,
  ),
  column('Since', { width: '9rem', phone: 'bare' }, ({ created_at: at }) => <Time iso={at} />),
  column('Actions', { width: '6.5rem', isNumeric: true, phone: 'aside' }, ({ email_address: address }) => (
    <RemoveSuppression address={address} label="Remove" size="compact-sm" onDone={onRemoved} />
  )),
]

/** What it stops is said where that is not all mail. */
function Reason({ row }: { readonly row: Suppression }) {
  const known = findReason(row.reason)
  const scope = describeScope(row)
  return (
    <>
      <StatusLabel tone={known?.tone ?? 'neutral'} title={known?.title ?? row.reason}>
        <bdi>{known?.word ?? row.reason}</bdi>
      </StatusLabel>
      {scope !== ALL_MAIL && <span className="time-relative"> · {scope}</span>}
    </>
  )
}

const Address = ({ address }: { readonly address: string }) =>
  isErased(address) ? (
    <span title={address}>Erased person</span>
  ) : (
    <NameLink to="/people/$address" params={{ address }} title={`All about ${address}`} name={address} />
  )

interface NewSuppression {
  readonly email_address: string
  readonly reason: string
  readonly text?: string
}

const AddButton = (button: { readonly reason: string | undefined; onDone(): void }) => (
  <FormButton
    label="Add an address"
    confirm="Add"
    fields={({ reason }) => [
      { name: 'email_address', label: 'Address', kind: 'email', placeholder: 'bob@example.com', isRequired: true },
      { name: 'reason', label: 'Reason', kind: 'choice', options: [...REASON_OPTIONS, OTHER_OPTION] },
      ...(reason === OTHER
        ? [{ name: 'text', label: 'Text of the reason', placeholder: 'asked by phone', isRequired: true } as const]
        : []),
    ]}
    initial={{ reason: MANUAL }}
    refreshes={['suppressions']}
    run={({ text, ...body }: NewSuppression) => api.suppressions.create({ ...body, ...(text && { reason: text }) })}
    done={({ data }) => `${data.email_address} is on the suppression list.`}
    footer={({ values }) => (
      <Text size="sm">
        {values['reason'] === UNSUBSCRIBE
          ? 'Stops only mail that is not transactional; receipts and new passwords still arrive.'
          : 'Stops all mail of this account to the address, until you remove it from the list.'}{' '}
        If it is on the list already, its reason stays.
      </Text>
    )}
    {...button}
  />
)

/** Of a file, so that one sees whether it is the right one. */
const SHOWN_BYTES = 2000
/** A server that has its default settings takes no larger request. */
const MAX_BYTES = 40 * 2 ** 20

export function SuppressionsImportScreen() {
  const [file, setFile] = useState<File | null>(null)
  const [beginning, setBeginning] = useState('')
  const [text, setText] = useState('')
  const [reason, setReason] = useState(MANUAL)
  const run = useChange(
    () => api.suppressions.import(new Blob([file ?? text], { type: 'text/csv' }), { query: { reason } }),
    'suppressions',
  )
  const choose = async (chosen: File | null) => {
    run.reset()
    setFile(chosen)
    setBeginning(chosen ? await chosen.slice(0, SHOWN_BYTES).text() : '')
  }
  return (
    <Page
      title="Import suppressions"
      back={{ label: 'Suppressions', target: { to: '/suppressions' } }}
      description={
        <>
          One address a line, or CSV with the columns <Code>email</Code> and optionally <Code>reason</Code>,{' '}
          <Code>stream</Code>, <Code>list</Code>. Exports of other services work as they are.
        </>
      }
    >
      <Stack maw={560} align="flex-start">
        <FileInput
          w="100%"
          label="File"
          placeholder="Choose a CSV file"
          accept=".csv,.txt,text/csv,text/plain"
          value={file}
          onChange={choose}
          disabled={run.isPending}
          clearable
          clearButtonProps={{ 'aria-label': 'Choose no file' }}
        />
        {file ? (
          <LongText label="The beginning of the file" text={beginning} />
        ) : (
          <Textarea
            w="100%"
            label="Or paste the addresses"
            placeholder={'bob@example.com\neve@example.com'}
            {...bindText(text, setText)}
            autosize
            minRows={6}
            maxRows={16}
            spellCheck={false}
            styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
          />
        )}
        <NativeSelect label="Reason of lines without one" {...bindText(reason, setReason)} data={REASON_OPTIONS} />
        <Group>
          {run.isSuccess ? (
            <Button variant="default" onClick={() => void choose(null)}>
              Import another list
            </Button>
          ) : (
            <ActionButton
              needs="developer"
              reason={findObstacle(file, text)}
              loading={run.isPending}
              onClick={() => run.mutate()}
              label="Import the list"
            />
          )}
        </Group>
        <FormError error={run.error} />
        <LeaveGuard
          text="The list is still being imported. You will not see which lines are refused."
          isDirty={() => run.isPending}
        />
        <div role="status">{run.data && <Result {...run.data} />}</div>
      </Stack>
    </Page>
  )
}

function findObstacle(file: File | null, text: string): string | undefined {
  if (file === null) return text.trim() === '' ? 'Choose a file, or paste addresses.' : undefined
  return file.size > MAX_BYTES ? 'The file is larger than 40 MiB: divide it, and import the parts.' : undefined
}

function Result({ data, errors }: Awaited<ReturnType<typeof api.suppressions.import>>) {
  const { total, imported, already_suppressed: known, invalid, ignored_columns: ignored } = data
  return (
    <Stack gap="xs">
      <Text fw={600}>The list is imported.</Text>
      <Text>
        {formatCount(total, 'line')}: {imported.toLocaleString()} new, {known.toLocaleString()} already on the list,{' '}
        {invalid.toLocaleString()} refused.
      </Text>
      {ignored.length > 0 && (
        <Text size="sm">
          Ignored columns: <bdi>{ignored.join(', ')}</bdi>
        </Text>
      )}
      <LineProblems title="Refused lines" problems={errors} count={invalid} />
    </Stack>
  )
}
