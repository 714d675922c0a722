/**
 * @module Reads a contact file that is being imported, one batch at a time from where the last one ended. Holds one
 * window of it in memory.
 */
import { type FileHandle, open } from 'node:fs/promises'
import { type CsvRecord, MAX_RECORD_BYTES, scanRecords } from '#platform/csv/records.ts'
import type { Answers } from './answers.ts'
import { type CsvHead, HEAD_BYTES, readHead } from './csv.ts'

/** A position between two records: the octets and whole lines before it; both 0 before the first record. */
export interface FilePosition {
  readonly doneBytes: number
  readonly doneLines: number
}

export interface ImportBatch extends FilePosition {
  readonly records: readonly CsvRecord[]
  /** The file ends after this batch. */
  readonly isLast: boolean
}

export interface ImportFile {
  readonly head: CsvHead
  readBatch(from: FilePosition): Promise<ImportBatch>
  close(): Promise<void>
}

/** Records per transaction: about 5 ms. */
const MAX_BATCH_RECORDS = 250
const MAX_BATCH_LINES = 4000
const WINDOW_BYTES = 2 * MAX_RECORD_BYTES

/** Opens a spooled file. Throws file system errors, such as ENOENT when the file is missing. */
export async function openImportFile(path: string, sizeBytes: number, answers: Answers): Promise<ImportFile> {
  const handle = await open(path, 'r')
  try {
    const start = Buffer.alloc(Math.min(HEAD_BYTES, sizeBytes))
    await fill(handle, start, 0)
    return createImportFile(handle, sizeBytes, readHead(start, sizeBytes <= HEAD_BYTES, answers))
  } catch (error) {
    await handle.close()
    throw error
  }
}

function createImportFile(handle: FileHandle, sizeBytes: number, head: CsvHead): ImportFile {
  const buffer = Buffer.alloc(Math.min(WINDOW_BYTES, sizeBytes))
  const readWindow = async (at: number): Promise<Buffer> => {
    const window = buffer.subarray(0, Math.min(buffer.length, sizeBytes - at))
    await fill(handle, window, at)
    return window
  }

  return {
    head,
    async readBatch(from) {
      const at = from.doneBytes === 0 ? head.dataByte : from.doneBytes
      const window = await readWindow(at)
      const scan = scanRecords(window, {
        delimiter: head.delimiter,
        line: from.doneBytes === 0 ? head.dataLine : from.doneLines + 1,
        isEnd: at + window.length === sizeBytes,
        maxRecords: MAX_BATCH_RECORDS,
        maxLines: MAX_BATCH_LINES,
        oneLineCell: head.emailCell,
      })
      const doneBytes = at + scan.end
      return { records: scan.records, doneBytes, doneLines: scan.line - 1, isLast: doneBytes === sizeBytes }
    },
    close: () => handle.close(),
  }
}

/** The file is shorter than it was when it was spooled. */
export class TruncatedFileError extends Error {}

async function fill(handle: FileHandle, buffer: Buffer, from: number): Promise<void> {
  for (let at = 0; at < buffer.length; ) {
    const { bytesRead } = await handle.read(buffer, at, buffer.length - at, from + at)
    if (bytesRead === 0) throw new TruncatedFileError('the file ends too early')
    at += bytesRead
  }
}
