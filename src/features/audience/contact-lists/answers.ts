/**
 * @module The question that stops an import whose file may say, in words that are not known, who gets no mail; and the
 * account's answers to it. Pure.
 */
import { CONTACT_STATUSES, type ContactStatus } from '#features/setup/contact-store/status.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { parseJsonObject } from '#platform/json-object.ts'
import { CONSENT_KINDS, type ConsentKind } from './consent.ts'

/** For columns by name: what a column means, or what its values mean. */
export type Answers = Readonly<Record<string, ColumnAnswer>>
type ColumnAnswer = ConsentKind | 'metadata' | 'ignore' | Readonly<Record<string, ContactStatus>>

/** A cell that may say that its contact gets no mail. */
export interface UnclearCell {
  /** Position of its column. */
  readonly column: number
  readonly value: string
}

export interface Question {
  /** As the file names it. */
  readonly column: string
  readonly values: string[]
}

const COLUMN_ANSWERS = ['metadata', 'ignore', ...CONSENT_KINDS] as const
const FORM =
  'a JSON object of columns, each with metadata or ignore (it says nothing about consent), status (its words say it), subscribed, confirmed, unsubscribed, bounced or complained (yes in it means that), or an object of its values, each with a status'
export const ANSWERS_DESCRIPTION = `What columns say about who gets no mail, where the import asks: ${FORM}. Example: \`{"Segment":"metadata","Consent":"subscribed","State":{"gold":"active","lapsed":"unsubscribed"}}\`.`

/** Parses the parameter `columns`; throws 422. */
export function parseAnswers(json: string | null | undefined): Answers {
  if (!json) return {}
  const answers = parseJsonObject(json)
  if (!answers || !Object.values(answers).every(isAnswer)) throw invalid('columns', `columns must be ${FORM}.`)
  return answers as Answers
}

const isAnswer = (answer: unknown): boolean =>
  typeof answer === 'object' && answer !== null
    ? Object.values(answer).every((status) => CONTACT_STATUSES.includes(status))
    : COLUMN_ANSWERS.includes(answer as (typeof COLUMN_ANSWERS)[number])

const MAX_VALUES = 20
const MAX_SHOWN_VALUES = 3
const MAX_VALUE_LENGTH = 100

/** The unclear cells of a file, by column. */
export class Questions {
  readonly #columns: readonly { readonly name: string }[]
  readonly #values = new Map<number, Set<string>>()
  /** Positions of columns with text: a consent column without any says nothing. */
  readonly #filled = new Set<number>()

  constructor(columns: readonly { readonly name: string }[]) {
    this.#columns = columns
  }

  /** Adds the unclear ones among the cells of a line. */
  add(unclear: readonly UnclearCell[], cells: readonly string[]): void {
    for (const [column, cell] of cells.entries()) if (cell !== '') this.#filled.add(column)
    for (const { column, value } of unclear) {
      const values = this.#values.get(column) ?? new Set()
      this.#values.set(column, values)
      if (values.size < MAX_VALUES) values.add(value.slice(0, MAX_VALUE_LENGTH))
    }
  }

  list(): Question[] {
    return [...this.#values]
      .filter(([column]) => this.#filled.has(column))
      .sort(([a], [b]) => a - b)
      .map(([column, values]) => ({ column: this.#columns[column]?.name ?? '', values: [...values] }))
  }

  /** Throws 422 `unclear_columns` if there is a question. */
  requireNone(): void {
    const questions = this.list()
    const [first] = questions
    if (!first) return
    const { column, values } = first
    const no = column === '' ? 'ignore' : 'metadata'
    const byValue = Object.fromEntries(values.slice(0, MAX_SHOWN_VALUES).map((value) => [value, 'unsubscribed']))
    throw new AppError(
      422,
      'unclear_columns',
      `Nothing was imported, because the file may say who gets no mail, in words that are not known: ${questions.map(describe).join('; ')}. Answer with the parameter columns, such as ${JSON.stringify({ [column]: no })} if it says nothing of the kind, or ${JSON.stringify({ [column]: byValue })}. It is ${FORM}.`,
      { details: questions.map((question) => ({ field: `columns.${question.column}`, message: describe(question) })) },
    )
  }
}

function describe({ column, values }: Question): string {
  const shown = values.slice(0, MAX_SHOWN_VALUES).map((value) => JSON.stringify(value))
  const more = values.length > shown.length ? ', …' : ''
  return `column ${column === '' ? 'without a name' : JSON.stringify(column)} with ${shown.join(', ')}${more}`
}
