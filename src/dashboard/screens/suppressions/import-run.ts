/**
 * @module Sends the lines of a suppression list in parts that `/v1` accepts. Waits when the service says so. A part that
 * was sent twice does no harm: addresses that are on the list already stay as they are.
 */

import { TassisError } from '#client/client.ts'
import { api } from '../../api/client.ts'
import type { FileEntry, FilePreview, LineProblem } from './read-file.ts'

const MAX_LINES = 1000
const MAX_PART_LENGTH = 256 * 1024

interface ImportPart {
  readonly csv: string
  readonly entries: readonly FileEntry[]
}

export function toPart({ header, entries }: Pick<FilePreview, 'header' | 'entries'>, from: number): ImportPart {
  const chosen: FileEntry[] = []
  let length = 0
  for (let index = from; index < entries.length && chosen.length < MAX_LINES; index++) {
    const entry = entries[index]
    if (!entry || length + entry.text.length > MAX_PART_LENGTH) break
    length += entry.text.length
    chosen.push(entry)
  }
  const lines = [...(header === undefined ? [] : [header]), ...chosen.map(({ text }) => text)]
  return { csv: `${lines.join('\r\n')}\r\n`, entries: chosen }
}

/** The line of the file that a line of a part comes from. */
export function toFileLine(part: ImportPart, header: string | undefined, lineOfPart: number): number {
  let line = header === undefined ? 1 : 1 + countLines(header)
  for (const entry of part.entries) {
    const next = line + countLines(entry.text)
    if (lineOfPart < next) return entry.line
    line = next
  }
  return part.entries.at(-1)?.line ?? lineOfPart
}

const countLines = (text: string): number => (text.match(/\r\n|\r|\n/g)?.length ?? 0) + 1

export interface ImportProgress {
  readonly done: number
  readonly imported: number
  readonly alreadySuppressed: number
  readonly refused: number
  /** The first 100 of the refused lines, by their number in the file. */
  readonly problems: readonly LineProblem[]
  readonly ignoredColumns: readonly string[]
  /** Seconds until the next attempt, while the service limits the rate. */
  readonly waitSeconds?: number
}

export const NO_PROGRESS: ImportProgress = {
  done: 0,
  imported: 0,
  alreadySuppressed: 0,
  refused: 0,
  problems: [],
  ignoredColumns: [],
}

const MAX_PROBLEMS = 100
const DEFAULT_WAIT_SECONDS = 5
/** After this many waits in a row, the reader decides. */
const MAX_WAITS = 10

interface RunOptions {
  readonly preview: FilePreview
  /** Of lines without a reason. */
  readonly reason: string
  /** Where an import that was interrupted continues. */
  readonly from: ImportProgress
  readonly signal: AbortSignal
  onProgress(progress: ImportProgress): void
}

/** Imports everything that is left. @throws TassisError, and an AbortError when it was cancelled */
export async function runImport({ preview, reason, from, signal, onProgress }: RunOptions): Promise<void> {
  let progress = from
  let waits = 0
  while (progress.done < preview.entries.length) {
    const part = toPart(preview, progress.done)
    try {
      const body = new Blob([part.csv], { type: 'text/csv' })
      const result = await api.suppressions.import(body, { query: { reason }, signal })
      progress = addResult(progress, result, part, preview.header)
      waits = 0
    } catch (error) {
      const isBusy = error instanceof TassisError && (error.status === 429 || error.status === 503)
      if (!isBusy || ++waits > MAX_WAITS) throw error
      const waitSeconds = error.retryAfter ?? DEFAULT_WAIT_SECONDS
      onProgress({ ...progress, waitSeconds })
      await waitFor(waitSeconds * 1000, signal)
    }
    onProgress(progress)
  }
}

function addResult(
  progress: ImportProgress,
  { data, errors }: Awaited<ReturnType<typeof api.suppressions.import>>,
  part: ImportPart,
  header: string | undefined,
): ImportProgress {
  const problems = errors.map(({ line, error }) => ({ line: toFileLine(part, header, line), error }))
  return {
    done: progress.done + part.entries.length,
    imported: progress.imported + data.imported,
    alreadySuppressed: progress.alreadySuppressed + data.already_suppressed,
    refused: progress.refused + data.invalid,
    problems: [...progress.problems, ...problems].slice(0, MAX_PROBLEMS),
    ignoredColumns: data.ignored_columns,
  }
}

/** @throws AbortError */
function waitFor(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(new DOMException('The import was cancelled.', 'AbortError'))
    })
  })
}
