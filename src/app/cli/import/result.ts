/**
 * @module What commands share that import from another service: one row for each thing, and what became of it. Without
 * `--apply` nothing is written. What exists is left as it is, so a repeated import completes one that was killed.
 */
import { TassisError } from '#client/client.ts'
import { formatCsv } from '#platform/csv/cells.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { CommandApi } from '../api.ts'
import { formatPage, type JsonOption, printResult } from '../output.ts'

interface ImportRow {
  /** What it is there, such as `domain`. */
  readonly source: string
  readonly name: string
  /** Name of the account here. */
  readonly account?: string
  readonly result: 'to_make' | 'made' | 'exists' | 'refused' | 'no_counterpart'
  readonly detail?: string | undefined
}

export type Thing = Omit<ImportRow, 'result'> & {
  readonly exists?: boolean
  /** Why it cannot be made. */
  readonly refused?: string | false | undefined
  /** What to do instead, because there is no such thing here. */
  readonly instead?: string | false | undefined
}

const LINES_PER_REQUEST = 5000
const COLUMNS = ['email_address', 'reason', 'origin', 'created_at']
/** Longer than any address. A longer cell, or one with a NUL, would have the whole file refused. */
const MAX_CELL_LENGTH = 1000

/** ISO 8601 of a time in seconds, or in whichever form; empty: it is none. */
function toTime(text: string): string {
  const at = /^\d{9,11}(?:\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text)
  return Number.isNaN(at) ? '' : isoTime(at)
}

export class ImportTable {
  readonly isApplied: boolean
  readonly #rows: ImportRow[] = []

  constructor(isApplied: boolean) {
    this.isApplied = isApplied
  }

  /** Makes a thing, if it can be and anything is to be written. What the API refuses is a row, and the import goes on. */
  async put<T>({ exists, refused, instead, ...thing }: Thing, make?: () => Promise<T>): Promise<T | undefined> {
    const add = (result: ImportRow['result'], detail = thing.detail) =>
      void this.#rows.push({ ...thing, result, detail })
    if (instead) return add('no_counterpart', instead)
    if (refused) return add('refused', refused)
    if (exists) return add('exists')
    if (!this.isApplied || !make) return add('to_make')
    try {
      const made = await make()
      add('made')
      return made
    } catch (error) {
      // Any other error is of the service, and of all that follows.
      if (!(error instanceof TassisError && [403, 404, 409, 422].includes(error.status))) throw error
      return add('refused', error.details[0]?.message ?? error.message)
    }
  }

  /**
   * Imports suppressions in parts, so that only one is in memory, and a failure on the way keeps the others.
   * @param api of the account; undefined: it is not made yet
   * @param pages lines of COLUMNS; words for reasons that are not ours are known to the service
   */
  async putSuppressions(
    api: CommandApi | undefined,
    thing: Omit<Thing, 'name'>,
    pages: Iterable<readonly string[][]> | AsyncIterable<readonly string[][]>,
  ): Promise<void> {
    const sum = { total: 0, imported: 0, already_suppressed: 0, invalid: 0 }
    let first = ''
    const flush = async (lines: readonly string[][]): Promise<void> => {
      sum.total += lines.length
      if (!this.isApplied || !api || lines.length === 0 || thing.instead) return
      const cells = lines.map(([address = '', reason = '', origin = '', at = '']) =>
        [address, reason, origin, toTime(at)].map((cell) => cell.slice(0, MAX_CELL_LENGTH).replace(/\p{Cc}/gu, ' ')),
      )
      const file = Buffer.from(formatCsv([COLUMNS, ...cells]))
      const { data, errors } = await api.suppressions.import(file, { headers: { 'content-type': 'text/csv' } })
      first ||= errors[0]?.error ?? ''
      for (const name of ['imported', 'already_suppressed', 'invalid'] as const) sum[name] += data[name]
    }
    const waiting: string[][] = []
    for await (const page of pages)
      for (const line of page) {
        waiting.push(line)
        if (waiting.length >= LINES_PER_REQUEST) await flush(waiting.splice(0))
      }
    await flush(waiting)
    const { total, imported, already_suppressed: here, invalid } = sum
    const detail = this.isApplied ? `${imported} new, ${here} here before` : 'those that exist stay as they are'
    const exists = this.isApplied && imported === 0
    if (total > 0) await this.put({ ...thing, name: String(total), exists, detail }, async () => undefined)
    const refused = `no addresses, such as: ${first}`
    if (invalid > 0) await this.put({ ...thing, name: String(invalid), refused })
  }

  /** Exit code 1 if something was refused. @param next what to do after an import */
  print(options: JsonOption, next: string): void {
    const data = this.#rows
    const count = (result: ImportRow['result']): number => data.filter((row) => row.result === result).length
    const written = this.isApplied ? `${count('made')} made` : `${count('to_make')} to make`
    const summary = `${written}, ${count('exists')} exist, ${count('refused')} refused, ${count('no_counterpart')} without a counterpart.`
    const format = () =>
      `${formatPage({ data }, 'result source account name detail')}\n${summary} ${this.isApplied ? next : 'Nothing was written; --apply makes it.'}`
    printResult(options, { data, applied: this.isApplied }, format)
    if (count('refused') > 0) process.exitCode = 1
  }
}
