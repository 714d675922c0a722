/**
 * @module What the first line of a suppression list says of its columns, and what its reasons mean: of our own exports, which are taken literally, and of the
 * exports of other services, which have names and words of their own. Pure.
 */
import { COMPLAINT, HARD_BOUNCE, UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import { invalidCsv } from '#platform/csv/invalid.ts'
import { MAX_REASON_LENGTH } from './suppressions.ts'

/** Columns of an export. */
export const COLUMNS = ['email_address', 'reason', 'stream', 'list'] as const
type Column = (typeof COLUMNS)[number]

/** `origin`: says why where `reason` does not, if it says anything that is known. */
type Role = Column | 'origin'

/** What the lines of a file mean. */
export interface Columns {
  /** Cells that a line has. */
  readonly count: number
  /** Position of the cell of a role. */
  readonly at: Readonly<Partial<Record<Role, number>>>
  /** Its reasons stand as this service wrote them. */
  readonly isOwnExport: boolean
  /** Whether the first line is one of the list already. */
  readonly isBare: boolean
  /** Names of the columns that say nothing here, each cut to 64 characters. */
  readonly ignored: readonly string[]
}

const MAX_COLUMNS = 50
const MAX_NAME_LENGTH = 64

/** Of letters and digits only, in small ones. */
const ROLES_BY_NAME: Readonly<Record<string, Role>> = {
  email: 'email_address',
  emailaddress: 'email_address',
  emailadresse: 'email_address',
  adresseemail: 'email_address',
  reason: 'reason',
  suppressionreason: 'reason',
  stream: 'stream',
  list: 'list',
  origin: 'origin',
  type: 'origin',
}
/** Names of a column of addresses where no other is: beside one, an address is that of a house. */
const FALLBACK_ADDRESS_NAMES: readonly string[] = [
  'address',
  'recipient',
  'recipients',
  'emails',
  'emailaddresses',
  'addresses',
  'mail',
  'to',
]

export const EXPECTED =
  'The first line must name the columns: email_address (or email, or address), and if wanted reason, stream and list; a file of addresses alone, or of addresses and reasons, needs none.'

/** What the first line of a file says of its columns. Throws 422 `invalid_csv`. */
export function parseColumns(header: readonly string[]): Columns {
  if (header.length === 1 && header[0]?.includes('\t'))
    throw invalidCsv(`Tabs part the columns of the first line; save the file with commas or semicolons. ${EXPECTED}`)
  if (header.length > MAX_COLUMNS)
    throw invalidCsv(`There are ${header.length} columns; at most ${MAX_COLUMNS} can be.`)
  if (isHeaderless(header))
    return { count: 2, at: { email_address: 0, reason: 1 }, isOwnExport: false, isBare: true, ignored: [] }
  const names = header.map((name) => name.toLowerCase().replaceAll(/[^\p{L}\d]/gu, ''))
  const at: Partial<Record<Role, number>> = {}
  const ignored: string[] = []
  for (const [index, name] of names.entries()) {
    const role = Object.hasOwn(ROLES_BY_NAME, name) ? ROLES_BY_NAME[name] : undefined
    if (role === undefined) ignored.push(truncateName(header[index]))
    else if (at[role] === undefined) at[role] = index
    else if (role === 'origin') ignored.push(truncateName(header[index]))
    else throw invalidCsv(`The column ${role} is there twice. ${EXPECTED}`)
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

/** An address, or an address and a word beside it. */
const isHeaderless = ([first = '', second = '', ...more]: readonly string[]): boolean =>
  more.length === 0 && first.includes('@') && !second.includes('@')

const truncateName = (name: string | undefined): string => (name ?? '').slice(0, MAX_NAME_LENGTH)

/** What other services call it, of letters alone. */
const REASONS_BY_NAME: Readonly<Record<string, string>> = {
  bounce: HARD_BOUNCE,
  bounced: HARD_BOUNCE,
  bounces: HARD_BOUNCE,
  bouncedaddress: HARD_BOUNCE,
  hardbounce: HARD_BOUNCE,
  hardbounced: HARD_BOUNCE,
  permanent: HARD_BOUNCE,
  permanentbounce: HARD_BOUNCE,
  invalid: HARD_BOUNCE,
  invalidemail: HARD_BOUNCE,
  complaint: COMPLAINT,
  complained: COMPLAINT,
  complaints: COMPLAINT,
  abuse: COMPLAINT,
  spam: COMPLAINT,
  spamcomplaint: COMPLAINT,
  spamreport: COMPLAINT,
  spamreports: COMPLAINT,
  markedasspam: COMPLAINT,
  unsub: UNSUBSCRIBE,
  unsubscribe: UNSUBSCRIBE,
  unsubscribed: UNSUBSCRIBE,
  unsubscribes: UNSUBSCRIBE,
  listunsubscribe: UNSUBSCRIBE,
  globalunsubscribe: UNSUBSCRIBE,
  optout: UNSUBSCRIBE,
  optedout: UNSUBSCRIBE,
  manual: 'manual',
  manualsuppression: 'manual',
}

/** A server's answer in the place of a reason: it refused for good. */
const SMTP_REJECTION = /^\W*5\d\d\b|^\W*5\.\d{1,3}\.\d{1,3}\b/

/**
 * What a reason of another service's export means; the text itself when that is not known, of a long one the beginning: an address that were left out for
 * its reason would get mail again.
 * @param origin what its other column says
 */
export function toKnownReason(text: string, origin: string): string {
  const known = findKnownReason(text)
  // Postmark: a "manual suppression" that the recipient asked for is an unsubscription.
  if (known === 'manual' && keepLetters(origin) === 'recipient') return UNSUBSCRIBE
  return known ?? (text === '' ? (findKnownReason(origin) ?? '') : truncateReason(text))
}

const truncateReason = (text: string): string =>
  text.length <= MAX_REASON_LENGTH ? text : text.slice(0, MAX_REASON_LENGTH).replace(/[\ud800-\udbff]$/, '')

const findKnownReason = (text: string): string | undefined =>
  SMTP_REJECTION.test(text)
    ? HARD_BOUNCE
    : Object.hasOwn(REASONS_BY_NAME, keepLetters(text))
      ? REASONS_BY_NAME[keepLetters(text)]
      : undefined

const keepLetters = (text: string): string =>
  text
    .slice(0, MAX_NAME_LENGTH)
    .toLowerCase()
    .replaceAll(/[^a-z]/g, '')
