/**
 * @module How the screens of emails show their state, who must act, and the dialogue and timings of an attempt; their
 * filters as `/v1` takes them, and their rows as a file. Pure but for the clock.
 */
import type { Email, EmailAttempt, EmailEvent, EmailSummary, RecipientExplanation } from '#client/api.ts'
import { keep, toQuery } from '../../parts/filters.ts'
import { formatTime, toEventData, toShownState } from '../../parts/format.ts'
import { toStatusWord } from '../../parts/tone.ts'
import { parseLocalTime, toLocalTime } from '../../parts/zone.ts'
import { findReason } from '../suppressions/reasons.ts'

type DialogueLine = NonNullable<EmailAttempt['dialogue']>[number]
type Responsible = RecipientExplanation['who_must_act']

export const RESPONSIBLE_LABELS: Readonly<Record<Responsible, string>> = {
  nobody: 'Nobody',
  recipient: 'The recipient or their mail provider',
  sender: 'You',
  operator: 'The operator of this server',
}

/** Of scheduled mail, when it will be sent. */
export const toShownTime = (email: Pick<EmailSummary, 'state' | 'scheduled_at' | 'created_at'>): string =>
  (email.state === 'scheduled' && email.scheduled_at) || email.created_at

/** What happened to the only recipient of an email, in a line. */
export function toHeadline(email: Email, { state, sentence, next_at: next, at, server }: RecipientExplanation): string {
  if (state === 'scheduled' && next !== null) return `Will be sent ${formatTime(next)}`
  if (state === 'complained') return 'The recipient got it and reported it as spam.'
  if (at === null) return sentence
  // Without the address in brackets.
  const host = server?.split(' [')[0]
  return sentence
    .replace(/^Expired:/, `Bounced, expired at ${formatTime(at)}:`)
    .replace(
      /^The receiving server accepted it\b/,
      (said) => `${host ? `Accepted by ${host}` : said}, ${formatTime(at)}${describeDelay(email, at)}`,
    )
}

/** How many of several recipients got it, and when it is tried next. */
export function toSummary({ state, explanations }: Pick<Email, 'state' | 'explanations'>): string {
  const groups = Map.groupBy(explanations, (one) => toStatusWord(one.state).toLowerCase())
  const counts = [...groups].map(([word, { length }]) => `${length.toLocaleString()} ${word}`)
  const [next] = explanations.flatMap(({ next_at: at }) => at ?? []).sort()
  const when = next && `${state === 'scheduled' ? 'Will be sent' : 'Next attempt'} ${formatTime(next)}.`
  return [`${counts.join(', ')}.`, when].filter(Boolean).join(' ')
}

const MIN_DELAY_MINUTES = 2

/** How long after the first attempt it was accepted, and whether greylisting was why. */
function describeDelay({ events }: Email, deliveredAt: string): string {
  const first = events.find(({ type }) => type === 'deferred')
  if (!first) return ''
  const minutes = Math.round((Date.parse(deliveredAt) - Date.parse(first.created_at)) / 60_000)
  if (minutes < MIN_DELAY_MINUTES) return ''
  const { rule, smtp_response: reply } = toEventData(first)
  const late = minutes < 120 ? `${minutes} min` : `${Math.round(minutes / 60)} h`
  return `, ${late} late${/greylist/i.test(`${rule} ${reply}`) ? ': its server delays new senders (greylisting)' : ''}`
}

/** What to do about a recipient, and until when nobody need do anything. */
export function toAdvice({ state, advice, who_must_act: who, next_at: next }: RecipientExplanation): string {
  const attempt = next !== null && state !== 'scheduled' ? `Next attempt ${formatTime(next)}.` : ''
  if (who === 'nobody') return attempt && `Wait. ${attempt}`
  const isNamed = who === 'sender' || (who === 'recipient' && advice !== null)
  return [isNamed ? '' : `${RESPONSIBLE_LABELS[who]} must act.`, advice ?? '', attempt].filter(Boolean).join(' ')
}

/** Whether the address gets further mail; while suppression stopped this one, the headline says it. */
export const toFurtherMail = ({ state, suppression, further_mail: text }: RecipientExplanation): string | null =>
  state === 'rejected' && suppression !== null ? null : text

/** Why sending the same again to the same address cannot help. */
const DEAD: readonly unknown[] = ['invalid_recipient', 'inactive_mailbox', 'dns_failure']

/** Whether sending it again is what helps now; otherwise it is in the menu. */
export const isBestSentAgain = ({ actions, explanations, recipients, sandbox }: Email): boolean =>
  actions.some(({ name }) => name === 'resend') &&
  explanations.some(
    ({ state }, index) =>
      state === 'cancelled' ||
      state === 'rejected' ||
      (state === 'captured' && !sandbox) ||
      (state === 'bounced' && !DEAD.includes(recipients[index]?.bounce_category)),
  )

/** Of a suppressed address whose advice is to remove the suppression; otherwise that is in the menu. */
export const isBestFreed = ({ state, suppression }: RecipientExplanation): boolean =>
  suppression !== null && (state === 'rejected' || state === 'complained')

const MARKS: Readonly<Record<DialogueLine['from'], string>> = { client: '>', server: '<', note: '*' }

/** Controls that reorder or break a line; the API has removed those of ASCII. */
const REORDERING = /[\u0080-\u009f\u2028-\u202e\u2066-\u2069]/g

export const formatDialogue = (dialogue: readonly DialogueLine[]): string =>
  dialogue
    .map(
      ({ at_ms: at, from, text }) => `${String(at).padStart(7)} ${MARKS[from]} ${text.replace(REORDERING, '\ufffd')}`,
    )
    .join('\n')

/** Says whether the session was reused, because then it has no `connect`. */
export const formatTimings = (timings: Readonly<Record<string, number>>): string =>
  [
    ...(timings['connect'] === undefined ? ['session reused'] : []),
    ...Object.entries(timings).map(([phase, ms]) => `${phase} ${ms} ms`),
  ].join(', ')

/** `to` joins the addresses; their names are not in it. */
export const countRecipients = ({ to, cc, bcc }: Pick<EmailSummary, 'to' | 'cc' | 'bcc'>): number =>
  (to === '' ? 0 : to.split(', ').length) + cc.length + bcc.length

export interface EventGroup {
  readonly type: string
  /** In their order; all say the same. */
  readonly events: readonly EmailEvent[]
  readonly first: EmailEvent
  readonly last: EmailEvent
}

/** Of an event, whoever wrote it. */
export const toText = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/** What an event says in one line: reply, cause or link; whoever wrote it. */
export function toEventText(event: EmailEvent): string | undefined {
  const { smtp_response: reply, reason, suppression = '', feedback_type: report, scope } = toEventData(event)
  const suppressed = findReason(String(suppression))?.word
  // What nearly every report is says nothing beside the name of the event.
  const rareReport = report === 'abuse' ? undefined : toText(report)
  if (reason === 'draft') return 'It waits until a person releases it.'
  return toText(event.link_url) ?? toText(reply) ?? toText(suppressed) ?? toText(reason) ?? rareReport ?? toText(scope)
}

/** Events of a recipient, or of all, in which those that follow each other and say the same are one. */
export function groupEvents(events: readonly EmailEvent[], address: string): readonly EventGroup[] {
  const own = events.filter(({ recipient }) => recipient === null || recipient === address)
  // `sent` says nothing beside the `delivered` that comes with it.
  const isDelivered = own.some(({ type }) => type === 'delivered')
  const groups: EventGroup[] = []
  for (const event of own) {
    if (isDelivered && event.type === 'sent') continue
    const before = groups.at(-1)
    const isSame = before?.type === event.type && toEventText(before.last) === toEventText(event)
    if (isSame) groups[groups.length - 1] = { ...before, events: [...before.events, event], last: event }
    else groups.push({ type: event.type, events: [event], first: event, last: event })
  }
  return groups
}

export interface OutcomeGroup {
  readonly outcome: RecipientExplanation
  readonly recipients: readonly { readonly explanation: RecipientExplanation; readonly kind: string }[]
}

const URGENCY: readonly RecipientExplanation['state'][] = [
  ...(['bounced', 'failed', 'complained', 'uncertain', 'draft', 'deferred', 'held', 'rejected'] as const),
  ...(['processing', 'queued', 'scheduled', 'captured', 'cancelled', 'sent'] as const),
]

/** Recipients of whom the same is said; what somebody should look at is first. */
export function groupOutcomes({
  explanations,
  recipients,
}: Pick<Email, 'explanations' | 'recipients'>): readonly OutcomeGroup[] {
  const all = explanations.map((explanation, index) => ({ explanation, kind: recipients[index]?.kind ?? 'to' }))
  const groups = Map.groupBy(all, ({ explanation: { state, sentence } }) => `${state} ${sentence}`)
  return [...groups.values()]
    .flatMap((group) => (group[0] ? [{ outcome: group[0].explanation, recipients: group }] : []))
    .sort((a, b) => URGENCY.indexOf(a.outcome.state) - URGENCY.indexOf(b.outcome.state))
}

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
