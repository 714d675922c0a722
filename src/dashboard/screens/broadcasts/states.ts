/** @module The steps of a broadcast before it is sent, then its states in words, and what can be done in each. */
import type { Broadcast, BroadcastSummary, ContactListRecipient } from '#client/api.ts'
import { keep, readKnown, type Search } from '../../parts/filters.ts'
import type { State } from '../../parts/tone.ts'

export const STEPS = ['list', 'content', 'test', 'send'] as const
export type Step = (typeof STEPS)[number]

export const STEP_NAMES: Readonly<Record<Step, string>> = {
  list: 'List',
  content: 'Content',
  test: 'Test email',
  send: 'Send',
}

export const parseStep = ({ step }: Search): { readonly step?: Step } => keep('step', readKnown(STEPS, step))

type BroadcastState = BroadcastSummary['state']
type Verb = 'pause' | 'resume' | 'cancel'

interface KnownState extends State {
  readonly verbs: readonly Verb[]
}

const STATES: Readonly<Record<BroadcastState, KnownState>> = {
  waiting: { word: 'Scheduled', tone: 'waiting', verbs: ['pause', 'cancel'] },
  sending: { word: 'Sending', tone: 'active', verbs: ['pause', 'cancel'] },
  paused: { word: 'Paused', tone: 'warning', verbs: ['resume', 'cancel'] },
  cancelling: { word: 'Being cancelled', tone: 'active', verbs: [] },
  failing: { word: 'Ending', tone: 'bad', verbs: [] },
  done: { word: 'Sent', tone: 'good', verbs: [] },
  cancelled: { word: 'Cancelled', tone: 'neutral', verbs: [] },
  failed: { word: 'Failed', tone: 'bad', verbs: [] },
}

/** A state of a later version is shown by its name. */
export const toBroadcastState = (state: string): KnownState =>
  (STATES as Readonly<Record<string, KnownState>>)[state] ?? { word: state, tone: 'neutral', verbs: [] }

/** Whether something delays it, such as the fence after a restore; its message says what. */
export const isDelayed = ({ state, message }: Pick<BroadcastSummary, 'state' | 'message'>): boolean =>
  state === 'sending' && message !== null

export const POLL_MS = 2000
/** Results of one that has ended change only by what readers do. */
export const SLOW_POLL_MS = 30_000

/** Whether nothing changes any more, other than what readers do. */
export const isOver = (state: string): boolean => ['done', 'cancelled', 'failed'].includes(state)

/** Percent of the recipients for whom it is decided whether an email is sent. */
export function toPercent({ enqueued, skipped, total_recipients: total, state }: BroadcastSummary): number {
  if (total === 0) return isOver(state) ? 100 : 0
  return Math.min(100, ((enqueued + skipped) / total) * 100)
}

export function describeProgress(broadcast: BroadcastSummary): string {
  const { enqueued, skipped, total_recipients: total } = broadcast
  return `${(enqueued + skipped).toLocaleString()} of ${total.toLocaleString()}`
}

interface Result {
  readonly label: string
  readonly count: number
  /** Of the filter of the list of emails; undefined: no filter shows them. */
  readonly status?: string
}

/** What became of the emails, in the order of a reader's interest; a result that nobody expects is left out if it is 0. */
export function toResults({ emails, skipped, sandbox }: Broadcast): readonly Result[] {
  const count = (status: string): number => emails[status] ?? 0
  const open = count('queued') + count('processing') + count('scheduled')
  const results: readonly (Result & { readonly isRare?: boolean })[] = [
    { label: sandbox ? 'Captured' : 'Delivered', count: count('sent'), status: 'sent' },
    { label: 'Bounced', count: count('bounced'), status: 'bounced' },
    { label: 'Failed', count: count('failed'), status: 'failed', isRare: true },
    { label: 'Uncertain', count: count('uncertain'), status: 'uncertain', isRare: true },
    { label: 'Suppressed', count: count('rejected'), status: 'rejected', isRare: true },
    { label: 'Waiting', count: open },
    { label: 'Skipped', count: skipped, isRare: true },
  ]
  return results.filter(({ count, isRare }) => count > 0 || !isRare).map(({ isRare: _, ...result }) => result)
}

/** `12.3 %`; undefined without a whole. */
export const toShare = (count: number, whole: number): string | undefined =>
  whole === 0 ? undefined : `${((count / whole) * 100).toFixed(1)} %`

const REASONS: Readonly<Record<keyof ContactListRecipient['left_out'], string>> = {
  suppressed: 'on the suppression list',
  unsubscribed: 'unsubscribed',
  pending: 'not confirmed yet',
  bounced: 'undeliverable',
  complained: 'reported mail as spam',
}

export const describeLeftOut = ({ left_out: leftOut }: ContactListRecipient): readonly string[] =>
  (Object.keys(REASONS) as (keyof typeof REASONS)[])
    .filter((reason) => leftOut[reason] > 0)
    .map((reason) => `${leftOut[reason].toLocaleString()} ${REASONS[reason]}`)
