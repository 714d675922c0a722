/** @module Imports a suppression list: choose, look at what was read, import with progress. */
import {
  Alert,
  Button,
  Code,
  FileInput,
  Group,
  List,
  NativeSelect,
  Progress,
  Stack,
  Text,
  Textarea,
  Title,
} from '@mantine/core'
import { useWindowEvent } from '@mantine/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { readAgain } from '../api/data.ts'
import { Figures } from '../parts/figures.tsx'
import { ActionButton, bindText, Form, FormError } from '../parts/form.tsx'
import { formatCount } from '../parts/format.ts'
import { TextLink } from '../parts/links.tsx'
import { Page } from '../parts/page.tsx'
import { type ImportProgress, NO_PROGRESS, runImport } from './suppressions/import-run.ts'
import { type FilePreview, type LineProblem, readSuppressionFile } from './suppressions/read-file.ts'
import { MANUAL, REASON_OPTIONS } from './suppressions/reasons.ts'

/** A browser reads a file of this size in about a second. */
const MAX_FILE_MIB = 64

export default function SuppressionsImportScreen() {
  const [preview, setPreview] = useState<FilePreview>()
  const [text, setText] = useState('')
  // Kept, so that the same list has the same reason again.
  const [reason, setReason] = useState(MANUAL)
  return (
    <Page title="Import suppressions">
      {preview ? (
        <Review preview={preview} reason={reason} onReason={setReason} onBack={() => setPreview(undefined)} />
      ) : (
        <Choose text={text} onText={setText} onRead={setPreview} />
      )}
    </Page>
  )
}

interface ChooseProps {
  /** What was pasted; kept while the reader looks at the preview. */
  readonly text: string
  onText(text: string): void
  onRead(preview: FilePreview): void
}

function Choose({ text, onText, onRead }: ChooseProps) {
  const [error, setError] = useState<string>()
  const [isReading, setIsReading] = useState(false)
  const read = async (source: () => Promise<string>) => {
    setIsReading(true)
    setError(undefined)
    try {
      onRead(await readSuppressionFile(await source()))
    } catch (cause) {
      setError(cause instanceof Error ? cause.message : String(cause))
    } finally {
      setIsReading(false)
    }
  }
  const submit = () => void read(async () => text)
  return (
    <Stack maw={720}>
      <Text>
        One address a line, or CSV with a line that names the columns: <Code>email</Code>, and optionally{' '}
        <Code>reason</Code>, <Code>stream</Code> and <Code>list</Code>. Exports of this and of other services work as
        they are. First you see what was read; nothing is sent before you confirm.
      </Text>
      {error !== undefined && (
        <Alert color="red" role="alert">
          {error}
        </Alert>
      )}
      <FileInput
        label="File"
        placeholder="Choose a CSV file"
        accept=".csv,.txt,text/csv,text/plain"
        disabled={isReading}
        onChange={(file) => file && void read(() => readText(file))}
      />
      <Form onSubmit={submit} align="flex-start">
        <Textarea
          w="100%"
          label="Or paste the addresses"
          placeholder={'bob@example.com\neve@example.com'}
          {...bindText(text, onText)}
          autosize
          minRows={6}
          maxRows={16}
          spellCheck={false}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
        />
        <Group>
          <Button type="submit" loading={isReading} disabled={text.trim() === ''}>
            Check
          </Button>
          <TextLink to="/suppressions">Cancel</TextLink>
        </Group>
      </Form>
    </Stack>
  )
}

/** @throws Error with a reason for the reader */
async function readText(file: File): Promise<string> {
  if (file.size > MAX_FILE_MIB * 1024 * 1024)
    throw new Error(
      `The file is larger than ${MAX_FILE_MIB} MiB. Split it, or run "tassis suppressions import" on the server.`,
    )
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer())
  } catch {
    throw new Error('The file is not in UTF-8; save it as "CSV UTF-8".')
  }
}

type RunState =
  | { readonly kind: 'idle' | 'running' | 'done' | 'cancelled' }
  | { readonly kind: 'failed'; readonly error: unknown }

/** An import that can be cancelled, and continued where it ended. It ends with the screen. */
function useImport(preview: FilePreview) {
  const [state, setState] = useState<RunState>({ kind: 'idle' })
  const [progress, setProgress] = useState<ImportProgress>(NO_PROGRESS)
  const ending = useRef<AbortController>(undefined)
  const queries = useQueryClient()
  useEffect(() => () => ending.current?.abort(), [])
  useWindowEvent('beforeunload', (event) => {
    if (state.kind === 'running') event.preventDefault()
  })
  const start = async (reason: string) => {
    const controller = new AbortController()
    ending.current = controller
    setState({ kind: 'running' })
    try {
      await runImport({ preview, reason, from: progress, signal: controller.signal, onProgress: setProgress })
      setState({ kind: 'done' })
    } catch (error) {
      setState(controller.signal.aborted ? { kind: 'cancelled' } : { kind: 'failed', error })
    } finally {
      readAgain(queries, 'suppressions')
    }
  }
  return { state, progress, start, cancel: () => ending.current?.abort() }
}

interface ReviewProps {
  readonly preview: FilePreview
  /** Of lines without one. */
  readonly reason: string
  onReason(reason: string): void
  onBack(): void
}

function Review({ preview, reason, onReason, onBack }: ReviewProps) {
  const { state, progress, start, cancel } = useImport(preview)
  const { entries, duplicates, wrong } = preview
  const isStarted = state.kind !== 'idle'
  const left = entries.length - progress.done
  const heading = useRef<HTMLHeadingElement>(null)
  // The form that had the focus is gone.
  useEffect(() => heading.current?.focus(), [])
  return (
    <Stack maw={720} align="flex-start">
      <Title order={2} size="h4" ref={heading} tabIndex={-1}>
        What was read
      </Title>
      <Summary preview={preview} />
      {wrong.count > 0 && (
        <Problems title="Wrong lines, which are not imported" count={wrong.count} problems={wrong.problems} />
      )}
      {duplicates.count > 0 && (
        <Text size="sm">
          Repeated lines: {duplicates.lines.join(', ')}
          {duplicates.count > duplicates.lines.length && ' …'}
        </Text>
      )}
      <NativeSelect
        label="Reason of lines without one"
        {...bindText(reason, onReason)}
        disabled={isStarted}
        data={REASON_OPTIONS}
      />
      {isStarted && <Running state={state} progress={progress} total={entries.length} />}
      <Group>
        {state.kind === 'running' ? (
          <Button variant="default" onClick={cancel}>
            Cancel
          </Button>
        ) : (
          left > 0 && (
            <ActionButton needs="developer" onClick={() => void start(reason)}>
              {isStarted ? `Import the remaining ${format(left)}` : `Import ${formatCount(left, 'line')}`}
            </ActionButton>
          )
        )}
        {state.kind !== 'running' && (
          <Button variant="default" onClick={onBack}>
            {state.kind === 'done' ? 'Import another list' : 'Back'}
          </Button>
        )}
        <TextLink to="/suppressions">Suppressions</TextLink>
      </Group>
    </Stack>
  )
}

const format = (count: number): string => count.toLocaleString()

function Summary({ preview: { entries, duplicates, wrong, total } }: Pick<ReviewProps, 'preview'>) {
  return (
    <>
      <Figures
        figures={[
          { label: 'To import', value: entries.length },
          { label: 'Repeated', value: duplicates.count },
          { label: 'Wrong', value: wrong.count },
          { label: 'Lines', value: total },
        ]}
      />
      {entries.length > 0 && (
        <Text size="sm">
          First addresses:{' '}
          {entries.slice(0, 5).map(({ line, address }, index) => (
            <span key={line}>
              {index > 0 && ', '}
              <bdi>{address.slice(0, 100)}</bdi>
            </span>
          ))}
        </Text>
      )}
    </>
  )
}

interface ProblemsProps {
  readonly title: string
  readonly count: number
  readonly problems: readonly LineProblem[]
}

const Problems = ({ title, count, problems }: ProblemsProps) => (
  <Stack component="section" aria-label={title} gap={4} w="100%">
    <Title order={2} size="h5">
      {title}
    </Title>
    <List size="sm" mah="16rem" style={{ overflowY: 'auto' }} tabIndex={0}>
      {problems.map(({ line, error }) => (
        <List.Item key={line}>
          Line {format(line)}: <bdi>{error}</bdi>
        </List.Item>
      ))}
    </List>
    {count > problems.length && <Text size="sm">and {format(count - problems.length)} more</Text>}
  </Stack>
)

interface RunningProps {
  readonly state: RunState
  readonly progress: ImportProgress
  readonly total: number
}

const STATE_TEXTS: Readonly<Record<RunState['kind'], string>> = {
  idle: '',
  running: 'Importing.',
  done: 'The list is imported.',
  cancelled: 'Cancelled. What was imported stays; you may continue, or import the same list again later.',
  failed: 'The import stopped. What was imported stays; you may continue, or import the same list again later.',
}

function Running({ state, progress, total }: RunningProps) {
  const { done, imported, alreadySuppressed, refused, problems, ignoredColumns, waitSeconds } = progress
  return (
    <Stack w="100%" gap="xs">
      <Progress value={(done / Math.max(total, 1)) * 100} aria-label="Lines imported" />
      <div role="status">
        <Text fw={600}>{STATE_TEXTS[state.kind]}</Text>
        {state.kind === 'running' && waitSeconds !== undefined && (
          <Text size="sm">The service limits the rate; it continues in {waitSeconds} s.</Text>
        )}
      </div>
      <Text>
        {format(done)} of {formatCount(total, 'line')}: {format(imported)} new, {format(alreadySuppressed)} already on
        the list, {format(refused)} refused.
      </Text>
      {ignoredColumns.length > 0 && (
        <Text size="sm">
          Ignored columns: <bdi>{ignoredColumns.join(', ')}</bdi>
        </Text>
      )}
      {refused > 0 && <Problems title="Refused lines" count={refused} problems={problems} />}
      {state.kind === 'failed' && <FormError error={state.error} />}
    </Stack>
  )
}
