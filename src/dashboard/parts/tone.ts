/** @module What states mean: their words, and the tone that decides their shape and colour. */

/** What a state means for the reader; it decides shape and colour. */
export type Tone = 'good' | 'bad' | 'warning' | 'waiting' | 'active' | 'neutral'

/** A state as it is shown. */
export interface State {
  readonly word: string
  readonly tone: Tone
  /** What it means, in the tooltip. */
  readonly title?: string
}

/** Every status of an email or recipient, and every type of event. */
const STATES: Readonly<Record<string, State>> = {
  queued: { word: 'Queued', tone: 'waiting' },
  draft: { word: 'Draft', tone: 'warning', title: 'It is sent when a person releases it.' },
  scheduled: { word: 'Scheduled', tone: 'waiting' },
  processing: { word: 'Sending', tone: 'active' },
  sent: { word: 'Delivered', tone: 'good' },
  delivered: { word: 'Delivered', tone: 'good' },
  held: { word: 'Held', tone: 'waiting' },
  deferred: { word: 'Deferred', tone: 'warning' },
  bounced: { word: 'Bounced', tone: 'bad' },
  failed: { word: 'Failed', tone: 'bad' },
  rejected: { word: 'Suppressed', tone: 'neutral' },
  cancelled: { word: 'Cancelled', tone: 'neutral' },
  uncertain: { word: 'Uncertain', tone: 'warning' },
  captured: { word: 'Captured', tone: 'neutral' },
  opened: { word: 'Opened', tone: 'good' },
  clicked: { word: 'Clicked', tone: 'good' },
  complained: { word: 'Spam complaint', tone: 'bad' },
  unsubscribed: { word: 'Unsubscribed', tone: 'neutral' },
  'email.inbound': { word: 'Received', tone: 'good' },
  'mailbox.message.received': { word: 'Mailbox message', tone: 'good' },
  'account.auto_paused': { word: 'Account paused', tone: 'bad' },
  'insights.generated': { word: 'Insights', tone: 'neutral' },
  'domain.records_lost': { word: 'DNS records lost', tone: 'warning' },
  'domain.records_restored': { word: 'DNS records restored', tone: 'good' },
  'domain.unverified': { word: 'Domain unverified', tone: 'bad' },
}

export const STATE_NAMES = Object.keys(STATES)

/** The word for a status or event type; unknown ones are shown as they are. */
export const toStatusWord = (status: string): string => STATES[status]?.word ?? status

export const toTone = (status: string): Tone => STATES[status]?.tone ?? 'neutral'
