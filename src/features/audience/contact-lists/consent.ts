/**
 * @module What a contact file says about who may get mail: the columns that say so, and the meaning of their cells, in
 * the words of other services' exports (`consent.json`). What may say so and is not known is unclear, never a guess.
 * Pure.
 */
import { indexWords, toStatusOfReason } from '#features/audience/suppressions/columns.ts'
import { CONTACT_STATUSES, type ContactStatus } from '#features/setup/contact-store/status.ts'
import data from './consent.json' with { type: 'json' }

/** In all but `status`, a cell is a yes or no, or a time, which is a yes; a cell with a word for a status means that. */
export const CONSENT_KINDS = ['status', 'subscribed', 'confirmed', 'unsubscribed', 'bounced', 'complained'] as const
export type ConsentKind = (typeof CONSENT_KINDS)[number]

/** What yes and no mean in a column. */
const YES_AND_NO: Readonly<Record<Exclude<ConsentKind, 'status'>, readonly [ContactStatus, ContactStatus]>> = {
  subscribed: ['active', 'unsubscribed'],
  confirmed: ['active', 'pending'],
  unsubscribed: ['unsubscribed', 'active'],
  bounced: ['bounced', 'active'],
  complained: ['complained', 'active'],
}

/** Names of columns, without FILLERS and TIMES: `Unsubscribed from all email` is `unsubscribed`. */
const NAMES = indexWords<ConsentKind | 'metadata'>(data.columns)

/** A name with one of these may be about consent. */
const LOOKS_LIKE_CONSENT =
  /unsub|subscribe(?!r)|opt(?:ed|s)?(?:in|out)|consent|permission|bounce|complain|spam|bl(?:ack|ock)list|blocked|quarantin|suppress|donot|gdpr|dsgvo|rgpd|lgpd|einwillig|abgemeldet|abmeld|angemeldet|abonn|iscri[tz]|uitgeschreven|afgemeld|descadastr|toestemming|zgoda|inscri|suscri|widerruf|widersp|abbestell|sperr|revo[ck]|withdr|avregistr|avmeld/

const FILLERS = new Set(data.fillers)
const TIMES = new Set(data.times)
/** A column about another channel, or about how somebody agreed, says nothing about mail to him. */
const CHANNELS = new Set(data.channels)
/** A no in a column with one of these may be one to mail: `I agree to get news`. */
const MAY_BE_REFUSED =
  /mail|news|market|werbe|werbung|promo|offer|contact|deliverab|notif|update|agree|accept|accett|acept|aceit|akzept|receiv|recev|receb|recib|ricev|erhalt/
/** Unless one of these says that it is about what happened, or a place. */
const FACTS = new Set(data.facts)
const CIRCUMSTANCES = new Set(data.circumstances)

const WORDS = indexWords<ContactStatus>(data.cells)
const YES = new Set(data.yes)
const NO = new Set(data.no)
const NOTHING = new Set(data.nothing)

/** The rank of a status is its strictness. */
export const isStricter = (status: ContactStatus, than: ContactStatus | undefined): boolean =>
  than === undefined || CONTACT_STATUSES.indexOf(status) > CONTACT_STATUSES.indexOf(than)

export const withoutMarks = (text: string): string => text.normalize('NFD').replace(/\p{M}/gu, '')
const toWord = (text: string): string =>
  withoutMarks(text)
    .toLowerCase()
    .replace(/[^\p{L}\d✓✔]/gu, '')

/**
 * What a column of this name says; `unclear`: it may be about consent; `unclear no`: a no in it may be; `metadata`: it
 * is about consent to something else, or about how it was given; undefined: it is not about consent.
 */
export function findConsentKind(name: string): ConsentKind | 'unclear' | 'unclear no' | 'metadata' | undefined {
  const parts = (withoutMarks(name).match(/\p{Lu}?[\p{Ll}\p{Lo}\d]+|[\p{Lu}\d]+/gu) ?? []).map((part) =>
    part.toLowerCase(),
  )
  if (parts.some((part) => CHANNELS.has(part))) return 'metadata'
  // Not of time: `On mailing list`.
  const isTimeWord = (part: string, index: number): boolean => TIMES.has(part) && !(part === 'on' && index === 0)
  const withoutTimes = parts.filter((part, index) => !isTimeWord(part, index))
  const core = withoutTimes.filter((part) => !FILLERS.has(part))
  const about = core.filter((part) => !CIRCUMSTANCES.has(part))
  const known = [parts, withoutTimes, core].map((list) => NAMES.get(list.join(''))).find((kind) => kind !== undefined)
  const kind = known ?? NAMES.get(about.join(''))
  // The time of a consent, like its circumstances, proves nothing about the present.
  const isDetail = withoutTimes.length < parts.length || (known === undefined && about.length < core.length)
  if (isDetail && (kind === 'status' || kind === 'subscribed' || kind === 'confirmed')) return 'metadata'
  if (known !== undefined || LOOKS_LIKE_CONSENT.test(parts.join(''))) return known ?? 'unclear'
  const isFact = parts.some((part) => FACTS.has(part) || CIRCUMSTANCES.has(part))
  return MAY_BE_REFUSED.test(parts.join('')) && !isFact ? 'unclear no' : undefined
}

/** A cell is undefined when it says nothing. */
export type CellMeaning = ContactStatus | 'unclear' | undefined

/**
 * The meaning of a cell.
 * @param isAnswered the account has said what the column means, so any other text in it is a yes to a reason to stop
 */
export function readConsent(kind: ConsentKind, cell: string, isAnswered: boolean): CellMeaning {
  const word = toWord(cell)
  if (word === '' || NOTHING.has(word)) return undefined
  const status = WORDS.get(word) ?? toStatusOfReason(cell)
  if (status !== undefined) return status
  if (kind === 'status') return 'unclear'
  const [yes, no] = YES_AND_NO[kind]
  if (NO.has(word) || /^0+$/.test(word)) return no
  return YES.has(word) || isTime(cell) || (isAnswered && yes !== 'active') ? yes : 'unclear'
}

/** A year, an epoch, or a date with a short year. */
const isTime = (cell: string): boolean => /\d{4}/.test(cell) || /\d\D\d{1,2}\D\d\d/.test(cell)

export const isNo = (cell: string): boolean => NO.has(toWord(cell))

/** Excludes most cells at little cost. */
const MAY_BE_OPT_OUT = /subscri|opt|listed|complained|bounced|cancel/i

/** Whether a cell of any column is a word for an opt-out that is used for nothing else. */
export const isOptOutWord = (cell: string): boolean =>
  cell.length < 32 &&
  MAY_BE_OPT_OUT.test(cell) &&
  /^(?:unsubscribed?|opt(?:ed)?out|b(?:lo|la)cklisted|complained|(?:hard)?bounced|cancell?ed)$/.test(toWord(cell))
