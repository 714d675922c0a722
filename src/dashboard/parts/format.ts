/** @module Numbers and times as text, times in the zone that the reader chose. */

import type { EmailSummary, TemplateSummary } from '#client/api.ts'
import { getZone, toLocalTime } from './zone.ts'

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const

/** A size with at most three digits, such as `3.4 GiB`. */
export function formatBytes(bytes: number): string {
  const step = bytes < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10))
  const value = bytes / 1024 ** step
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[step]}`
}

/** `accounts`, `mailboxes`, `deliveries`, `people`. */
export const toPlural = (noun: string): string =>
  noun === 'person' ? 'people' : noun.endsWith('x') ? `${noun}es` : `${noun}s`.replace(/ys$/, 'ies')

/** The name of a template with its language. */
export const toTemplateLabel = ({ name, locale }: Pick<TemplateSummary, 'name' | 'locale'>): string =>
  locale ? `${name} (${locale})` : name

/** `1 account`, `2,000 accounts`. */
export const formatCount = (count: number, noun: string): string =>
  `${count.toLocaleString()} ${count === 1 ? noun : toPlural(noun)}`

/** `12 ms`, `3.4 s`; null: unknown. */
export const formatDuration = (ms: number | null): string =>
  ms === null ? '–' : ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`

/** As a field of the type `datetime-local` has it: minutes in the zone of the reader. */
export const toLocalMinute = (at: Date): string => toLocalTime(at).slice(0, 16)

const MAX_TITLE_LENGTH = 80

/** The subject of a message as the title of a screen. */
export function toTitle(subject: string): string {
  if (subject.trim() === '') return '(no subject)'
  const characters = [...subject]
  return characters.length > MAX_TITLE_LENGTH ? `${characters.slice(0, MAX_TITLE_LENGTH).join('')}…` : subject
}

/** As an argument of a shell. */
export const quote = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`

/** The value of a limit that stands for "no limit". */
export const UNLIMITED = 2147483647

/** What an event has beside its type, such as the reply of a server. */
export const toEventData = ({
  raw_payload: data,
}: {
  readonly raw_payload?: unknown
}): Readonly<Record<string, unknown>> => (data ?? {}) as Readonly<Record<string, unknown>>

/** The options of a choice; `none` is the word for no choice. */
export const toOptions = <Value extends string>(
  values: readonly Value[],
  toLabel: (value: Value) => string,
  none?: string,
): { readonly value: string; readonly label: string }[] => [
  ...(none === undefined ? [] : [{ value: '', label: none }]),
  ...values.map((value) => ({ value, label: toLabel(value) })),
]

/** What is left of a name in small letters, digits and hyphens; empty when nothing is. */
export const toSlug = (name: string, maxLength: number): string =>
  name
    .normalize('NFKD')
    .toLowerCase()
    .replace(/\p{M}+/gu, '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-/, '')
    .slice(0, maxLength)
    .replace(/-$/, '')

const HAS_12_HOURS = new Intl.DateTimeFormat(undefined, { hour: 'numeric' }).resolvedOptions().hour12 ?? false

/** `3:04 PM` today, else `28 Nov, 3:04 PM`, with the year if it is another one. */
export function formatTime(iso: string, hasSeconds = false): string {
  const timeZone = getZone()
  const at = new Date(iso)
  const clock = new Intl.DateTimeFormat(HAS_12_HOURS ? 'en-US' : 'en-GB', {
    timeZone,
    hour: HAS_12_HOURS ? 'numeric' : '2-digit',
    minute: '2-digit',
    ...(hasSeconds && { second: '2-digit' }),
  }).format(at)
  return formatDay(at) === formatDay(new Date()) ? clock : `${formatDay(at)}, ${clock}`
}

/** `28 Nov`, with the year if it is another one. */
export function formatDay(at: Date): string {
  const timeZone = getZone()
  const year = new Intl.DateTimeFormat('en-GB', { timeZone, year: 'numeric' })
  const isOther = year.format(at) !== year.format(new Date())
  return new Intl.DateTimeFormat('en-GB', {
    timeZone,
    day: 'numeric',
    month: 'short',
    ...(isOther && { year: 'numeric' }),
  }).format(at)
}

const TIME_UNITS = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const

/** `2 hours ago`, `in 3 days`, `just now`. */
export function formatRelative(iso: string): string {
  const seconds = (new Date(iso).getTime() - Date.now()) / 1000
  const [unit, length] = TIME_UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? []
  if (unit === undefined) return seconds > 0 ? 'in a moment' : 'just now'
  return new Intl.RelativeTimeFormat('en').format(Math.trunc(seconds / length), unit)
}

/** Of delivered mail, what the recipient did last. @param state of the email, or of one of its recipients */
export function toShownState({ engagement }: Pick<EmailSummary, 'engagement'>, state: EmailSummary['state']): string {
  if (state !== 'sent') return state
  return (['complained', 'clicked', 'opened'] as const).find((name) => engagement.includes(name)) ?? state
}
