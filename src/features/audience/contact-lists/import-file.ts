/**
 * @module Reads a contact file that is being imported, one batch at a time from where the last one ended. Holds one
 * window of it in memory, and no file open.
 */
import { type CsvRecord, MAX_RECORD_BYTES, scanRecords } from '#platform/csv/records.ts'
import type { Answers } from './answers.ts'
import { HEAD_BYTES, readHead } from './csv.ts'

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

/** Records per transaction: about 5 ms. */
const MAX_BATCH_RECORDS = 250
const MAX_BATCH_LINES = 4000
const WINDOW_BYTES = 2 * MAX_RECORD_BYTES

/** Reads the head of a spooled file. Throws file system errors, such as ENOENT when the file is missing. */
export async function openImportFile(path: string, sizeBytes: number, answers: Answers) {
  const read = async (at: number, maxBytes: number): Promise<Buffer> => {
    const end = Math.min(at + maxBytes, sizeBytes)
    const bytes = Buffer.from(await Bun.file(path).slice(at, end).arrayBuffer())
    if (bytes.length < end - at) throw new TruncatedFileError('the file ends too early')
    return bytes
  }
  const head = readHead(await read(0, HEAD_BYTES), sizeBytes <= HEAD_BYTES, answers)
  return {
    head,
    async readBatch(from: FilePosition): Promise<ImportBatch> {
      const at = from.doneBytes === 0 ? head.dataByte : from.doneBytes
      const window = await read(at, WINDOW_BYTES)
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
  }
}

/** The file is shorter than it was when it was spooled. */
export class TruncatedFileError extends Error {}
