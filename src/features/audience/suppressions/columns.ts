/**
 * @module The columns of a suppression list's header and the meaning of its reasons: those of our own exports, which
 * are used literally, and those of other services' exports, which have different names and words. Pure.
 */
import type { StoppedStatus } from '#features/setup/contact-store/status.ts'
import { COMPLAINT, HARD_BOUNCE, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import { invalidCsv } from '#platform/csv/records.ts'
import data from './columns.json' with { type: 'json' }
import { MAX_REASON_LENGTH } from './suppressions.ts'

/** Columns of an export. */
export const COLUMNS = ['email_address', 'reason', 'stream', 'list'] as const
type Column = (typeof COLUMNS)[number]

/**
 * `origin`: a column that explains the cause when `reason` does not. Only known words in it count. `created_at`: when
 * another service suppressed the address; a text that is no time, or one to come, counts as now.
 */
type Role = Column | 'origin' | 'created_at'

/** The meaning of a file's columns. */
export interface Columns {
  /** Number of cells per line. */
  readonly count: number
  readonly at: Readonly<Partial<Record<Role, number>>>
  /** Its reasons are in this service's own words. */
  readonly isOwnExport: boolean
  /** Whether the first line is already an entry of the list. */
  readonly isBare: boolean
  /** Names of the ignored columns, each truncated to 64 characters. */
  readonly ignored: readonly string[]
}

const MAX_COLUMNS = 50
const MAX_NAME_LENGTH = 64

/** @param words of each value */
export const indexWords = <Value extends string>(
  words: Readonly<Record<Value, readonly string[]>>,
): ReadonlyMap<string, Value> =>
  new Map(
    (Object.entries(words) as [Value, readonly string[]][]).flatMap(([value, list]) => list.map((w) => [w, value])),
  )

/** Lower case, letters and digits only. */
const ROLES_BY_NAME = indexWords<Role>(data.columns)
/** Names of an address column; in a file with an email column, an address is a postal address. */
const FALLBACK_ADDRESS_NAMES: readonly string[] = data.address_columns

export const EXPECTED =
  'The first line must name the columns: email_address (or email, or address), and optionally reason, stream and list; a file of addresses alone, or of addresses and reasons, needs no header.'

/** Parses the first line of a file. Throws 422 `invalid_csv`. */
export function parseColumns(header: readonly string[]): Columns {
  if (header.length === 1 && header[0]?.includes('\t'))
    throw invalidCsv(`The file is tab-separated; save it with commas or semicolons. ${EXPECTED}`)
  if (header.length > MAX_COLUMNS)
    throw invalidCsv(`The file has ${header.length} columns; at most ${MAX_COLUMNS} are allowed.`)
  if (isHeaderless(header))
    return { count: 2, at: { email_address: 0, reason: 1 }, isOwnExport: false, isBare: true, ignored: [] }
  const names = header.map((name) => name.toLowerCase().replaceAll(/[^\p{L}\d]/gu, ''))
  const at: Partial<Record<Role, number>> = {}
  const ignored: string[] = []
  for (const [index, name] of names.entries()) {
    const role = ROLES_BY_NAME.get(name)
    if (role === undefined) ignored.push(truncateName(header[index]))
    else if (at[role] === undefined) at[role] = index
    else if (role === 'origin' || role === 'created_at') ignored.push(truncateName(header[index]))
    else throw invalidCsv(`The column ${role} occurs twice. ${EXPECTED}`)
  }
  if (at.email_address === undefined) {
    const fallback = names.findIndex((name) => FALLBACK_ADDRESS_NAMES.includes(name))
    if (fallback === -1)
      throw invalidCsv(
        `There is no column email_address among ${JSON.stringify(header.map(truncateName)).slice(1, 500)} ${EXPECTED}`,
      )
    at.email_address = fallback
    ignored.splice(ignored.indexOf(truncateName(header[fallback])), 1)
  }
  const isOwnExport = header.length === COLUMNS.length && COLUMNS.every((column, i) => header[i] === column)
  return { count: header.length, at, isOwnExport, isBare: false, ignored }
}

/** Whether a line is an entry instead of a header: an address alone, or an address and a reason. */
const isHeaderless = ([first = '', second = '', ...more]: readonly string[]): boolean =>
  more.length === 0 && first.includes('@') && !second.includes('@')

const truncateName = (name: string | undefined): string => (name ?? '').slice(0, MAX_NAME_LENGTH)

/** Other services' words for our reasons, letters only. */
const REASONS_BY_NAME = indexWords<typeof HARD_BOUNCE | typeof COMPLAINT | typeof UNSUBSCRIBE | 'manual'>(data.reasons)

/** An SMTP reply in place of a reason: a permanent rejection. */
const SMTP_REJECTION = /^\W*5\d\d\b|^\W*5\.\d{1,3}\.\d{1,3}\b/

/** Our reason for another service's; an unknown one is kept, because skipping it would let the address get mail. */
export function toKnownReason(text: string, origin: string): string {
  const known = findKnownReason(text)
  // Postmark: a "manual suppression" whose origin is the recipient is an unsubscription.
  if (known === 'manual' && keepLetters(origin) === 'recipient') return UNSUBSCRIBE
  return known ?? (text === '' ? (findKnownReason(origin) ?? '') : truncateReason(text))
}

const STATUSES_BY_REASON: Readonly<Record<string, StoppedStatus>> = {
  [HARD_BOUNCE]: 'bounced',
  [COMPLAINT]: 'complained',
  [UNSUBSCRIBE]: 'unsubscribed',
}

/** The status of a contact that another service stopped for this reason; undefined: it is not a known reason. */
export const toStatusOfReason = (text: string): StoppedStatus | undefined =>
  STATUSES_BY_REASON[findKnownReason(text) ?? '']

const truncateReason = (text: string): string =>
  text.length <= MAX_REASON_LENGTH ? text : text.slice(0, MAX_REASON_LENGTH).replace(/[\ud800-\udbff]$/, '')

const findKnownReason = (text: string): string | undefined =>
  SMTP_REJECTION.test(text) ? HARD_BOUNCE : REASONS_BY_NAME.get(keepLetters(text))

const keepLetters = (text: string): string =>
  text
    .slice(0, MAX_NAME_LENGTH)
    .toLowerCase()
    .replaceAll(/[^a-z]/g, '')
