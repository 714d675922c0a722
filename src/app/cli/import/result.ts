/**
 * @module What commands share that import from another service: one row for each thing, and what became of it. Without
 * `--apply` nothing is written. What exists is left as it is, so a repeated import completes one that was killed.
 */
import { TassisError } from '#client/client.ts'
import { formatCsv } from '#platform/csv/cells.ts'
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

type Thing = Omit<ImportRow, 'result'> & {
  readonly exists?: boolean
  /** Why it cannot be made. */
  readonly refused?: string | false | undefined
  /** What to do instead, because there is no such thing here. */
  readonly instead?: string | false | undefined
}

const COLUMNS = ['email_address', 'reason', 'origin', 'created_at']
/** Longer than any address. A longer cell, or one with a NUL, would have the whole file refused. */
const MAX_CELL_LENGTH = 1000
const toCell = (text: string): string => text.slice(0, MAX_CELL_LENGTH).replace(/\p{Cc}/gu, ' ')

/** A line without anything would be skipped, so that a file of something else would look like an empty list. */
const toFile = (lines: SuppressionLines): Buffer<ArrayBuffer> =>
  Buffer.from(
    formatCsv([COLUMNS, ...lines.map(([address, ...others]) => [address || 'no address', ...others].map(toCell))]),
  )

/** Cells of COLUMNS; the import knows the words and times of other services. */
export type SuppressionLines = readonly (readonly [address: string, reason: string, origin: string, at: string])[]

/** What the API says against a thing. Any other error is of the service, and of all that follows. */
function toRefusal(error: unknown): string {
  if (!(error instanceof TassisError && [403, 404, 409, 413, 422].includes(error.status))) throw error
  return error.details[0]?.message ?? error.message
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
      return add('refused', toRefusal(error))
    }
  }

  /**
   * Imports suppressions in parts, so that a failure on the way keeps those before it; a dry run says what is new.
   * @param api of the account; undefined: it is not made yet, so all are new
   * @param reason of lines without one
   */
  async putSuppressions(
    api: CommandApi | undefined,
    thing: Omit<Thing, 'name'>,
    parts: AsyncIterable<SuppressionLines | Buffer<ArrayBuffer>>,
    reason?: string,
  ): Promise<void> {
    const sum = { total: 0, imported: 0, already_suppressed: 0, invalid: 0 }
    let problem = ''
    const isDry = !this.isApplied || Boolean(thing.instead)
    const query = { reason, ...(isDry && { dry_run: 'true' as const }) }
    for await (const part of parts) {
      if (!api) {
        sum.total += part.length
        sum.imported += part.length
        continue
      }
      try {
        const { data, errors } = await api.suppressions.import(Buffer.isBuffer(part) ? part : toFile(part), { query })
        problem ||= errors[0]?.error ?? ''
        for (const name of Object.keys(sum) as (keyof typeof sum)[]) sum[name] += data[name]
      } catch (error) {
        await this.put({ ...thing, name: '', refused: toRefusal(error) })
      }
    }
    const { total, imported, already_suppressed: here, invalid } = sum
    const given = {
      ...thing,
      name: String(total),
      exists: imported === 0,
      detail: `${imported} new, ${here} here before`,
    }
    if (total > 0) await this.put(given, async () => undefined)
    if (invalid > 0 && !thing.instead)
      await this.put({ ...thing, name: String(invalid), refused: `no addresses, such as: ${problem}` })
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
