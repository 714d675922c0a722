/**
 * @module What commands share that import from another service: one row for each thing, and what became of it. Without
 * `--apply` nothing is written. What exists is left as it is, so a repeated import completes one that was killed.
 */
import { TassisError } from '#client/client.ts'
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
