/** @module Imports a suppression list: choose a file or paste addresses, look at the beginning, import. */
import { Button, Code, FileInput, Group, NativeSelect, Stack, Text, Textarea } from '@mantine/core'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { useChange } from '../api/data.ts'
import { ActionButton } from '../parts/buttons.tsx'
import { LeaveGuard } from '../parts/dialog.tsx'
import { bindText } from '../parts/form.tsx'
import { FormError } from '../parts/form-error.tsx'
import { formatCount } from '../parts/format.ts'
import { LineProblems } from '../parts/line-problems.tsx'
import { LongText } from '../parts/long-text.tsx'
import { Page } from '../parts/page.tsx'
import { MANUAL, REASON_OPTIONS } from './suppressions/reasons.ts'

/** Of a file, so that one sees whether it is the right one. */
const SHOWN_BYTES = 2000
/** A server that has its default settings takes no larger request. */
const MAX_BYTES = 40 * 2 ** 20

export default function SuppressionsImportScreen() {
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
            >
              Import the list
            </ActionButton>
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
