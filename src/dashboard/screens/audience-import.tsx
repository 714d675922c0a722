/**
 * @module Imports a CSV file into a contact list: the file is checked first, then sent whole, and its progress is shown.
 * The import is in the URL, so whoever leaves and returns finds it.
 */
import { Checkbox, FileInput, Group, NativeSelect, Progress, Stack, Text, Title } from '@mantine/core'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { ContactList, Operation, PreviewContactImportResult } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api, read } from '../api/client.ts'
import { useChange, useData } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { ActionButton } from '../parts/buttons.tsx'
import { ConfirmButton } from '../parts/dialog.tsx'
import { bindChecked, bindText, FormError } from '../parts/form.tsx'
import { formatCount } from '../parts/format.ts'
import { LineProblems } from '../parts/line-problems.tsx'
import { ButtonLink } from '../parts/links.tsx'
import { Facts, Page, QueryView } from '../parts/page.tsx'
import { Notice } from '../parts/status.tsx'
import { type Column, DataTable } from '../parts/table.tsx'
import { MetadataLine } from './audience/parts.tsx'
import { hasEnded, useOperation } from './queries.ts'

const STATUS = 'The status of the contact'

const COLUMN_KINDS: Readonly<Record<string, string>> = {
  email: 'The address',
  status: STATUS,
  metadata: 'Metadata, as a JSON object',
  'passed over': 'Nothing: it is ignored',
  subscribed: `${STATUS}: yes means active, no unsubscribed`,
  confirmed: `${STATUS}: no means pending`,
}

const describeColumn = ({ name, kind }: PreviewContactImportResult['columns'][number]): string =>
  kind === 'field' ? `Metadata: contact.${name ?? ''}` : (COLUMN_KINDS[kind] ?? `${STATUS}: yes means ${kind}`)

function describeImport(operation: Operation): string {
  const { status, completed_items: completed, failed_items: failed, error_summary: problem } = operation
  if (status === 'pending') return 'The import is about to begin.'
  if (status === 'processing') return 'The import is running. You can leave this page; it continues.'
  if (status === 'failed') return problem?.message ?? 'The import ended early.'
  if (failed === 0) return 'The import is complete.'
  return completed === 0
    ? 'The import is complete, but no line could be imported.'
    : `The import is complete. ${failed === 1 ? 'One line was' : `${failed.toLocaleString()} lines were`} left out.`
}

const route = getRouteApi('/audience/lists/$id/import')

export default function AudienceImportScreen() {
  const { id } = route.useParams()
  const { operation } = route.useSearch()
  const list = useData(read.contactLists.get(id))
  return (
    <Page
      title="Import contacts"
      back={{
        label: <bdi>{list.data?.name ?? 'The list'}</bdi>,
        target: { to: '/audience/lists/$id', params: { id } },
      }}
      description="CSV in UTF-8. The first line names the columns: email, and optionally status, metadata and others. Opt-outs of other services are obeyed; contacts on the list keep their data."
    >
      <QueryView query={list}>
        {(found) =>
          operation === undefined ? (
            <ChooseFile list={found} />
          ) : (
            <ImportProgress key={operation} list={found} operationId={operation} />
          )
        }
      </QueryView>
    </Page>
  )
}

function ChooseFile({ list }: { readonly list: ContactList }) {
  const [file, setFile] = useState<File | null>(null)
  const [isConfirmed, setIsConfirmed] = useState(false)
  const [answers, setAnswers] = useState<Answers>({})
  const [asked, setAsked] = useState<readonly Question[]>([])
  const preview = usePreviewImport(list.id)
  const start = useStartImport(list.id)
  const navigate = useNavigate()
  const reason = useAllowed('developer')
  const ask = (questions: readonly Question[]) =>
    setAsked((before) => [...before, ...questions.filter(({ column }) => before.every((one) => one.column !== column))])
  const check = (checked: File, given: Answers) => {
    setAnswers(given)
    start.reset()
    preview.mutate({ file: checked, columns: toParameter(given) }, { onSuccess: ({ questions }) => ask(questions) })
  }
  const choose = (chosen: File | null) => {
    setFile(chosen)
    setAsked([])
    start.reset()
    preview.reset()
    if (chosen) check(chosen, {})
  }
  const send = () => {
    if (!file) return
    start.mutate(
      { file, isConfirmed, columns: toParameter(answers) },
      {
        onSuccess: (operation) =>
          void navigate({
            to: '/audience/lists/$id/import',
            params: { id: list.id },
            search: { operation },
            replace: true,
          }),
        onError: (error) => {
          // A question about a line that the preview did not reach.
          if (error instanceof TassisError && error.code === 'unclear_columns')
            ask(error.details.map(({ field = '' }) => ({ column: field.replace('columns.', ''), values: [] })))
        },
      },
    )
  }
  return (
    <Stack gap="lg" maw={860}>
      {reason !== undefined && <Notice>{reason}</Notice>}
      <FileInput
        label="CSV file"
        placeholder="Choose a file"
        accept=".csv,.txt,text/csv,text/plain"
        value={file}
        onChange={choose}
        disabled={reason !== undefined || start.isPending}
        clearable
        clearButtonProps={{ 'aria-label': 'Choose no file' }}
        maw={480}
      />
      {preview.isPending && <Text role="status">The file is being checked.</Text>}
      {preview.error && <FormError error={preview.error} />}
      {file && <ImportQuestions questions={asked} answers={answers} onAnswer={(given) => check(file, given)} />}
      {preview.data && file && <Preview preview={preview.data} />}
      {preview.data && file && (
        <Stack gap="sm" align="flex-start">
          {list.double_opt_in && (
            <Checkbox
              label="They have agreed already: send no confirmation requests"
              description="Without this, each new contact gets an email with a link, and nothing else until it is used."
              {...bindChecked(isConfirmed, setIsConfirmed)}
            />
          )}
          <FormError error={start.error} />
          <ActionButton reason={reason} loading={start.isPending} onClick={send}>
            {start.error ? 'Try again' : 'Import this file'}
          </ActionButton>
          {start.isPending && <Text role="status">The file is being uploaded.</Text>}
        </Stack>
      )}
    </Stack>
  )
}

const toParameter = (answers: Answers): string => (Object.keys(answers).length > 0 ? JSON.stringify(answers) : '')

type ShownPreview = PreviewContactImportResult & { readonly isPartial: boolean }
type PreviewColumn = PreviewContactImportResult['columns'][number] & { readonly key: string }
type PreviewContact = PreviewContactImportResult['contacts'][number]

const COLUMN_COLUMNS: readonly Column<PreviewColumn>[] = [
  { header: 'Column', cell: ({ name }) => <bdi>{name ?? 'Without a name'}</bdi> },
  { header: 'Becomes', cell: (column) => describeColumn(column) },
]

const CONTACT_COLUMNS: readonly Column<PreviewContact>[] = [
  { header: 'Address', cell: ({ email }) => <bdi>{email}</bdi> },
  { header: 'Line', width: '5rem', isNumeric: true, phone: 'aside', cell: ({ line }) => line },
  { header: 'Status', cell: ({ status }) => status ?? 'As the list says' },
  {
    header: 'Metadata',
    cell: ({ metadata }) => <MetadataLine metadata={metadata} />,
  },
]

function Preview({ preview }: { readonly preview: ShownPreview }) {
  const { checked, invalid, isPartial } = preview
  return (
    <Stack gap="lg" component="section" aria-label="Preview">
      <Text role="status" fw={600}>
        {isPartial ? 'The beginning of the file was checked: ' : 'The file was checked: '}
        {formatCount(checked - invalid, 'contact')} of {formatCount(checked, 'line')} can be imported
        {invalid > 0 ? `, ${formatCount(invalid, 'line')} would be left out.` : '.'}
        {isPartial && ' The other lines are checked during the import.'}
      </Text>
      <DataTable
        label="Columns of the file"
        columns={COLUMN_COLUMNS}
        rows={preview.columns.map((column, index) => ({ ...column, key: String(index) }))}
        toKey={({ key }) => key}
      />
      {preview.contacts.length > 0 && (
        <Stack gap="xs">
          <Title order={2} size="h4">
            The first contacts
          </Title>
          <DataTable
            label="The first contacts"
            columns={CONTACT_COLUMNS}
            rows={preview.contacts}
            toKey={({ line }) => String(line)}
          />
        </Stack>
      )}
      <LineProblems title="Lines that would be left out" problems={preview.problems} count={invalid} />
    </Stack>
  )
}

const ImportProgress = ({ list, operationId }: { readonly list: ContactList; readonly operationId: string }) => (
  <QueryView query={useOperation(operationId)}>
    {(operation) =>
      operation.operation_type === 'bulk_import' && toImportDetails(operation).list_id === list.id ? (
        <ImportView list={list} operation={operation} />
      ) : (
        <Text>This is not an import into this list.</Text>
      )
    }
  </QueryView>
)

function ImportView({ list, operation }: { readonly list: ContactList; readonly operation: Operation }) {
  const isOver = hasEnded(operation)
  const { total_items: total, completed_items: completed, failed_items: failed } = operation
  const done = completed + failed
  const percent = total === 0 ? (isOver ? 100 : 0) : Math.min(100, (done / total) * 100)
  const details = toImportDetails(operation)
  return (
    <Stack gap="lg" maw={860}>
      <Text role="status" size="lg">
        {describeImport(operation)}
      </Text>
      {/* Cut short, a bar would say that something is still to come. */}
      {operation.status !== 'failed' && (
        <Progress.Root size="lg">
          <Progress.Section value={percent} aria-label="Lines read" />
        </Progress.Root>
      )}
      <Facts
        facts={[
          ['Lines read', `${done.toLocaleString()} of ${total.toLocaleString()}`],
          ['New contacts', details.inserted.toLocaleString()],
          ['On the list before', details.duplicates.toLocaleString()],
          ['Left out', failed.toLocaleString()],
        ]}
      />
      <Group gap="xs">
        {isOver ? (
          <>
            <ButtonLink to="/audience/lists/$id" params={{ id: list.id }}>
              Show the list
            </ButtonLink>
            <ButtonLink variant="default" to="/audience/lists/$id/import" params={{ id: list.id }}>
              Import another file
            </ButtonLink>
          </>
        ) : (
          <ConfirmButton
            label="Cancel the import"
            needs="developer"
            title="Cancel this import?"
            refreshes={[['operations', 'get', operation.id]]}
            run={() => api.contactLists.cancelImport(list.id, operation.id)}
          >
            Contacts imported so far stay on the list. You can import the file again later: it continues with those that
            are missing.
          </ConfirmButton>
        )}
      </Group>
      <LineProblems title="Lines that were left out" problems={details.errors} count={failed} />
    </Stack>
  )
}

/** What an operation of the type bulk_import has in its metadata. */
interface ImportDetails {
  readonly list_id: string
  readonly inserted: number
  readonly duplicates: number
  readonly errors: readonly { readonly line: number; readonly error: string }[]
}

const toImportDetails = ({ metadata }: Operation): ImportDetails => metadata as ImportDetails

interface ChosenFile {
  readonly file: File
  /** What its columns mean, as JSON; empty: as the service thinks. */
  readonly columns: string
}

/** The server reads no more of a file for a preview. */
const PREVIEW_BYTES = 256 * 1024

const usePreviewImport = (listId: string) =>
  useChange(async ({ file, columns }: ChosenFile) => {
    const isPartial = file.size > PREVIEW_BYTES
    const body = new Blob([file.slice(0, PREVIEW_BYTES)], { type: 'text/csv' })
    const query = { columns: columns || undefined, ...(isPartial && { partial: 'true' as const }) }
    const { data } = await api.contactLists.previewImport(listId, body, { query })
    return { ...data, isPartial }
  })

interface Upload extends ChosenFile {
  readonly isConfirmed: boolean
}

/** Resolves with the id of the operation. */
const useStartImport = (listId: string) =>
  useChange(
    async ({ file, isConfirmed, columns }: Upload) => {
      const body = new Blob([file], { type: 'text/csv' })
      const query = { confirmed: isConfirmed ? ('true' as const) : ('false' as const), columns: columns || undefined }
      const { data } = await api.contactLists.importContacts(listId, body, { query })
      return data.operation_id
    },
    ['contactLists', 'listImports', listId],
  )

type Question = PreviewContactImportResult['questions'][number]
/** As the parameter `columns` has them: the meaning of a column, or of its values. */
type Answers = Readonly<Record<string, string | Readonly<Record<string, string>>>>

const NONE = { value: '', label: 'Choose', disabled: true }
const COLUMN_MEANINGS = [
  NONE,
  { value: 'metadata', label: 'Nothing about mail: keep it as metadata' },
  { value: 'ignore', label: 'Nothing about mail: ignore it' },
  ...['subscribed', 'confirmed', 'unsubscribed', 'bounced', 'complained'].map((value) => ({
    value,
    label: `Yes means ${value}`,
  })),
]
const STATUSES = [NONE, 'active', 'pending', 'unsubscribed', 'bounced', 'complained']

interface ImportQuestionsProps {
  readonly questions: readonly Question[]
  readonly answers: Answers
  onAnswer(answers: Answers): void
}

/** Asks what the file says about who gets no mail, where the server does not know its words. */
function ImportQuestions({ questions, answers, onAnswer }: ImportQuestionsProps) {
  if (questions.length === 0) return null
  return (
    <Notice tone="warning" title="Who gets no mail?">
      <Stack gap="sm">
        <Text>These columns may say who must not get mail. Say what they, or their values, mean.</Text>
        {questions.map(({ column, values }) => {
          const answer = answers[column]
          const byValue = typeof answer === 'object' ? answer : {}
          return (
            <Group key={column} align="end">
              <NativeSelect
                label={column === '' ? 'Column without a name' : `Column ${column}`}
                data={COLUMN_MEANINGS}
                {...bindText(typeof answer === 'string' ? answer : '', (value) =>
                  onAnswer({ ...answers, [column]: value }),
                )}
              />
              {values.map((value) => (
                <NativeSelect
                  key={value}
                  label={value === '' ? 'An empty cell' : `“${value}”`}
                  data={STATUSES}
                  {...bindText(byValue[value] ?? '', (meaning) =>
                    onAnswer({ ...answers, [column]: { ...byValue, [value]: meaning } }),
                  )}
                />
              ))}
            </Group>
          )
        })}
      </Stack>
    </Notice>
  )
}
