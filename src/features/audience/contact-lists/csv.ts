/**
 * @module Contacts as CSV: the meaning of a file's columns, the content of a line, and the format of an export, which
 * an import can read again. Never accesses a file or the database.
 */
import { isUtf8 } from 'node:buffer'
import type { Contact } from '#features/setup/contact-store/find.ts'
import type { ContactStatus } from '#features/setup/contact-store/status.ts'
import { type Delimiter, formatCsv, unescapeCell } from '#platform/csv/cells.ts'
import { type CsvRecord, detectStart, invalidCsv, MAX_RECORD_BYTES, scanRecords } from '#platform/csv/records.ts'
import { type AppError, attempt, invalid } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { MAX_JSON_DEPTH, measureJson } from '#platform/http/json.ts'
import { parseJsonObject } from '#platform/json-object.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import type { Answers, UnclearCell } from './answers.ts'
import {
  type CellMeaning,
  CONSENT_KINDS,
  type ConsentKind,
  findConsentKind,
  isNo,
  isOptOutWord,
  isStricter,
  readConsent,
  withoutMarks,
} from './consent.ts'
import { MAX_METADATA_BYTES } from './model.ts'

/** The meaning of a column. A column with an unknown name becomes metadata of that name. */
export type Column = { readonly name: string; readonly answer?: Answers[string] | undefined } & (
  | { readonly kind: 'email' | 'metadata' | ConsentKind }
  /** Which cells raise a question: those with text, or with a no. */
  | { readonly kind: 'field' | 'passed over'; readonly unclear?: 'text' | 'no' | undefined }
)

/** The head of a file: its columns, and where its records begin. */
export interface CsvHead {
  readonly delimiter: Delimiter
  readonly columns: readonly Column[]
  readonly hasHeader: boolean
  /** Index of the address column. */
  readonly emailCell: number
  /** Byte offset of the first contact in the file, and the number of that line. */
  readonly dataByte: number
  readonly dataLine: number
}

/** The content of a line. */
export interface CsvContact {
  readonly email: string
  /** JSON object. */
  readonly metadata: string
  /** Undefined: the file has none, and the list decides. */
  readonly status: ContactStatus | undefined
  /** Cells that may say that the contact gets no mail. */
  readonly unclear: readonly UnclearCell[]
}

/** The header must end within this many bytes of the file. */
export const HEAD_BYTES = MAX_RECORD_BYTES

const MAX_COLUMNS = 50
const MAX_NAME_LENGTH = 64

/** In lower case, letters only. */
const EMAIL_NAMES: readonly string[] = ['email', 'emailaddress', 'emailadresse', 'adresseemail']
/** Names of an address column in a file without one of the above; beside one, an address is a postal address. */
const FALLBACK_EMAIL_NAMES: readonly string[] =
  'primaryemail workemail emailwork email1 email1value emailaddressother emailadres adresemail indirizzoemail courriel correoelectronico correo epost eposta mail recipient subscriber address'.split(
    ' ',
  )
/** Columns of an export that an import ignores: the times of an imported contact are those of the import. */
const TIME_NAMES: readonly string[] = ['subscribed_at', 'created_at']
/**
 * Exports that list only people who get no mail, and say so nowhere in the file: the kind of their columns from the
 * second on. Of Mailgun: bounces, unsubscriptions, complaints; of SendGrid: all of its suppressions.
 */
const OPT_OUT_EXPORTS: Readonly<Record<string, readonly (ConsentKind | 'unclear')[]>> = {
  'address,code,error,created_at': ['bounced'],
  'address,tags,created_at': ['unclear'],
  'address,created_at': ['unclear'],
  'email,created': ['unclear'],
  'email,ip,created': ['unclear'],
}

const EXPECTED =
  'The first line must name the columns: email (or e-mail, mail, address, email address), and optionally status, metadata and others, which become metadata; a file with a single column of addresses needs no header.'

/**
 * Reads the head of a file. Throws 422 `invalid_csv` if the file is not a contact file.
 * @param start its first HEAD_BYTES, or all of it when it is shorter
 * @param answers what the account says of its columns
 */
export function readHead(start: Buffer, isWhole: boolean, answers: Answers = {}): CsvHead {
  if (WORKBOOKS.some((bytes) => start.indexOf(bytes) === 0))
    throw invalidCsv(
      'The file is a workbook or an archive; open it in a spreadsheet program and save it as "CSV UTF-8".',
    )
  if (!isUtf8(start.subarray(0, start.length - (isWhole ? 0 : countPartialCharacterBytes(start)))) || start.includes(0))
    throw invalidCsv('The file is not in UTF-8; save it as "CSV UTF-8".')
  const { at: skipped, delimiter } = detectStart(start)
  const content = start.subarray(skipped)
  // `scanRecords` reports a header that does not end as a record that is too long.
  const { records, end, line } = scanRecords(content, { delimiter, line: 1, isEnd: isWhole, maxRecords: 1 })
  const [header] = records
  if (!header) throw isWhole ? emptyFile() : invalidCsv(`The first line does not end. ${EXPECTED}`)
  if (header.kind === 'broken')
    throw invalidCsv(`The first line cannot be read: ${lowerFirst(header.error)} ${EXPECTED}`)
  if (header.cells.length === 1 && header.cells[0]?.includes('\t'))
    throw invalidCsv(`The file is tab-separated; save it with commas or semicolons. ${EXPECTED}`)
  const isBare = header.cells.length === 1 && (header.cells[0] ?? '').includes('@')
  const columns = isBare ? [{ kind: 'email', name: '' } as const] : parseColumns(header.cells, answers)
  return {
    delimiter,
    columns,
    hasHeader: !isBare,
    emailCell: columns.findIndex(({ kind }) => kind === 'email'),
    dataByte: isBare ? skipped : skipped + end,
    dataLine: isBare ? 1 : line,
  }
}

/** First bytes of current workbooks (ZIP) and of those before 2007. */
const WORKBOOKS: readonly Buffer[] = [Buffer.from('PK\x03\x04'), Buffer.from('d0cf11e0', 'hex')]

/** The number of bytes at the end that may start an incomplete character. */
function countPartialCharacterBytes(bytes: Buffer): number {
  for (let count = 1; count <= 3 && count <= bytes.length; count++)
    if ((bytes[bytes.length - count] ?? 0) >= 0xc0) return count
  return 0
}

function parseColumns(header: readonly string[], answers: Answers): Column[] {
  const names = header
    .map((cell) => unescapeCell(cell).trim())
    .slice(0, header.findLastIndex((cell) => cell !== '') + 1)
  if (names.length > MAX_COLUMNS)
    throw invalidCsv(`The file has ${names.length} columns; at most ${MAX_COLUMNS} are allowed.`)
  for (const [index, name] of names.entries())
    if (name.length > MAX_NAME_LENGTH)
      throw invalidCsv(`The name of column ${index + 1} is longer than ${MAX_NAME_LENGTH} characters. ${EXPECTED}`)
  const unknown = Object.keys(answers).find((name) => !names.includes(name))
  if (unknown !== undefined) throw invalid('columns', `There is no column ${quote(unknown)} among ${listNames(names)}.`)
  const letters = names.map((name) =>
    withoutMarks(name)
      .toLowerCase()
      .replaceAll(/[^\p{L}\d]/gu, ''),
  )
  const emailNames = [EMAIL_NAMES, ...FALLBACK_EMAIL_NAMES.map((name) => [name])].find((some) =>
    letters.some((name) => some.includes(name)),
  )
  const optOuts = OPT_OUT_EXPORTS[names.join(',')]
  const columns = names.map((name, i) =>
    emailNames?.includes(letters[i] ?? '')
      ? ({ kind: 'email', name } as const)
      : toColumn(name, answers, optOuts?.[i - 1]),
  )
  const keys = columns.map(({ kind, name }) => (kind === 'field' ? `field ${name}` : kind))
  const repeated = names.find(
    (_, i) => /^(?:email|metadata|field )/.test(keys[i] ?? '') && keys.indexOf(keys[i] ?? '') < i,
  )
  if (repeated !== undefined) throw invalidCsv(`The column ${JSON.stringify(repeated)} occurs twice. ${EXPECTED}`)
  if (!keys.includes('email')) throw invalidCsv(`There is no column email among ${listNames(names)}. ${EXPECTED}`)
  return columns
}

const MAX_LISTED_NAMES = 10

function listNames(names: readonly string[]): string {
  const shownNames = names.slice(0, MAX_LISTED_NAMES).map((name) => JSON.stringify(name))
  return `${shownNames.join(', ')}${names.length > MAX_LISTED_NAMES ? ` and ${names.length - MAX_LISTED_NAMES} more` : ''}`
}

function toColumn(name: string, answers: Answers, optOut: ConsentKind | 'unclear' | undefined): Column {
  const known = name.toLowerCase()
  const found = optOut ?? (TIME_NAMES.includes(known) ? 'ignore' : findConsentKind(name))
  const unclear = found === 'unclear' ? 'text' : found === 'unclear no' ? 'no' : undefined
  const answer = Object.hasOwn(answers, name)
    ? answers[name]
    : unclear
      ? undefined
      : (found as Exclude<typeof found, 'unclear' | 'unclear no'>)
  if (answer === 'ignore') return { kind: 'passed over', name }
  if (answer === 'metadata') return { kind: 'field', name, answer }
  if (name === '') return { kind: 'passed over', name, unclear: 'text' }
  if (known === 'metadata') return { kind: known, name }
  if (answer === undefined) return { kind: 'field', name, unclear }
  const kind = typeof answer === 'string' ? answer : (CONSENT_KINDS.find((one) => one === found) ?? 'status')
  return { kind, name, ...(Object.hasOwn(answers, name) && { answer }) }
}

/** The contact of a record, or why the record is invalid. */
export function parseContact(
  record: CsvRecord,
  { columns, emailCell }: CsvHead,
): CsvContact | { readonly error: string } {
  if (record.kind === 'broken') return { error: record.error }
  const { cells } = record
  if (cells.slice(columns.length).some((cell) => cell !== ''))
    return { error: `The line has ${cells.length} fields instead of ${columns.length}.` }
  const parsed = parseMailbox(unescapeCell(cells[emailCell] ?? ''))
  if (parsed.kind === 'invalid') return { error: parsed.reason }
  let baseMetadata: object = {}
  const fields: [string, string][] = []
  for (const [index, column] of columns.entries()) {
    const cell = cells[index] ?? ''
    if (cell === '') continue
    if (column.kind === 'field') fields.push([column.name, unescapeCell(cell)])
    if (column.kind === 'metadata') {
      const read = parseObject(unescapeCell(cell))
      if (!read)
        return { error: `The metadata is not a JSON object, or is nested deeper than ${MAX_JSON_DEPTH} levels.` }
      baseMetadata = read
    }
  }
  const metadata = JSON.stringify({ ...baseMetadata, ...Object.fromEntries(fields) })
  return Buffer.byteLength(metadata) > MAX_METADATA_BYTES
    ? { error: `The metadata has more than ${MAX_METADATA_BYTES} bytes of JSON.` }
    : { email: parsed.address, metadata, ...parseStatus(cells, columns) }
}

/** The strictest status that a cell of the line names. In a line that names a reason to stop, nothing is unclear. */
function parseStatus(cells: readonly string[], columns: readonly Column[]): Pick<CsvContact, 'status' | 'unclear'> {
  let status: ContactStatus | undefined
  const unclear: UnclearCell[] = []
  const withoutConsent: UnclearCell[] = []
  for (const [index, column] of columns.entries()) {
    const cell = { column: index, value: unescapeCell(cells[index] ?? '').trim() }
    const meaning = readMeaning(column, cell.value)
    if (meaning === 'unclear') unclear.push(cell)
    else if (meaning !== undefined) status = isStricter(meaning, status) ? meaning : status
    else if (column.kind === 'subscribed') withoutConsent.push(cell)
  }
  const isStopped = status !== undefined && isStricter(status, 'pending')
  return { status, unclear: isStopped ? [] : [...unclear, ...(status === undefined ? withoutConsent : [])] }
}

function readMeaning(column: Column, value: string): CellMeaning {
  const { kind, answer } = column
  if (typeof answer === 'object' && Object.hasOwn(answer, value)) return answer[value]
  if (kind === 'email' || kind === 'metadata') return undefined
  if (kind === 'field' || kind === 'passed over')
    return (column.unclear === 'text' && value !== '') ||
      (column.unclear === 'no' && isNo(value)) ||
      (kind === 'field' && answer === undefined && isOptOutWord(value))
      ? 'unclear'
      : undefined
  return readConsent(kind, value, typeof answer === 'string')
}

const parseObject = (text: string): object | undefined =>
  attempt(() => {
    // The same depth limit as for a request body, so that every reader can parse it later.
    measureJson(text)
    return parseJsonObject(text)
  })

const EXPORT_COLUMNS = ['email', 'status', 'subscribed_at', 'unsubscribed_at', 'created_at', 'metadata'] as const

export const EXPORT_HEADER: string = formatCsv([EXPORT_COLUMNS])

/** Formats rows of an export, each with its line end. */
export const formatExportLines = (
  contacts: readonly Pick<Contact, 'email' | 'status' | 'subscribedAt' | 'unsubscribedAt' | 'createdAt' | 'metadata'>[],
): string =>
  formatCsv(
    contacts.map(({ email, status, subscribedAt, unsubscribedAt, createdAt, metadata }) => [
      email,
      status,
      isoTime(subscribedAt),
      isoTimeOrNull(unsubscribedAt) ?? '',
      isoTime(createdAt),
      metadata ?? '',
    ]),
  )

const quote = (text: string): string => JSON.stringify(text.slice(0, 100))

const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1)

/** The 422 for a file without a first line. */
export const emptyFile = (): AppError => invalidCsv(`The file is empty. ${EXPECTED}`)
