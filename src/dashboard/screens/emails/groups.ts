/** @module Puts equal attempts of a timeline, and recipients with the same outcome, together. Pure. */
import type { Email, EmailEvent, RecipientExplanation } from '#client/api.ts'
import { toEventData } from '../../parts/format.ts'
import { findReason } from '../suppressions/reasons.ts'

export interface EventGroup {
  readonly type: string
  /** In their order; all say the same. */
  readonly events: readonly EmailEvent[]
  readonly first: EmailEvent
  readonly last: EmailEvent
}

const toText = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined)

/** What an event says in one line: reply, cause or link; whoever wrote it. */
export function toEventText(event: EmailEvent): string | undefined {
  const { smtp_response: reply, reason, suppression = '', feedback_type: report, scope } = toEventData(event)
  const suppressed = findReason(String(suppression))?.word
  // What nearly every report is says nothing beside the name of the event.
  const rareReport = report === 'abuse' ? undefined : toText(report)
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
  ...(['bounced', 'failed', 'complained', 'uncertain', 'deferred', 'held', 'rejected'] as const),
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
