/** @module The filters of the list of emails, as `/v1` takes them, and its rows as a file. Pure but for the clock. */
import type { EmailSummary } from '#client/api.ts'
import { toQuery } from '../../parts/filters.ts'
import { toShownState } from '../../parts/format.ts'
import { keep } from '../../parts/search.ts'
import { parseLocalTime, toLocalTime } from '../../parts/zone.ts'

const ENGAGEMENTS: readonly unknown[] = ['opened', 'clicked', 'complained']

type Query = Readonly<Record<string, string | undefined>>

/** @param values as the list has them in the URL */
export function toEmailQuery({ status, range, cursor, ...values }: Query, now = new Date()): Query {
  const days = range === undefined || range === 'custom' ? undefined : Number(range)
  return {
    ...toQuery(values),
    ...keep('cursor', cursor),
    ...(ENGAGEMENTS.includes(status) ? { engagement: status } : { status }),
    ...(days !== undefined && { from_date: startOfDay(now, days - 1).toISOString(), to_date: undefined }),
  }
}

/** When the day began that was so many days ago, in the reader's zone. */
function startOfDay(now: Date, daysAgo: number): Date {
  const today = toLocalTime(now).slice(0, 10)
  const day = new Date(`${today}T12:00:00Z`)
  day.setUTCDate(day.getUTCDate() - daysAgo)
  return parseLocalTime(`${day.toISOString().slice(0, 10)}T00:00:00.000`)
}

/** Text that a spreadsheet would run as a formula begins with an apostrophe. */
const toCell = (value: string): string =>
  `"${(/^[=+\-@\t\r]/.test(value) ? `'${value}` : value).replaceAll('"', '""')}"`

const COLUMNS: readonly (readonly [name: string, toValue: (row: EmailSummary) => string])[] = [
  ['time', ({ created_at: at }) => at],
  ['status', (row) => toShownState(row, row.state)],
  ['to', ({ to }) => to],
  ['cc', ({ cc }) => cc.join(', ')],
  ['from', ({ from_address: from }) => from],
  ['subject', ({ subject }) => subject],
  ['tags', ({ tags }) => tags.join(', ')],
  ['reply', ({ smtp_response: reply }) => reply ?? ''],
  ['id', ({ id }) => id],
  ['message_id', ({ message_id: id }) => id],
]

/** RFC 4180. */
export const toCsv = (rows: readonly EmailSummary[]): string =>
  [
    COLUMNS.map(([name]) => name).join(','),
    ...rows.map((row) => COLUMNS.map(([, toValue]) => toCell(toValue(row))).join(',')),
    '',
  ].join('\r\n')
