/** @module The operator's screens in words: shares, states, and what is done with mail in the queue. */
import type {
  OperatorDoctor,
  OperatorQueueRule,
  ReleaseOperatorQueueRequest,
  RetryOperatorQueueResult,
} from '#client/operator-api.ts'
import { formatCount } from '../../parts/format.ts'

export type DoctorFinding = OperatorDoctor['findings'][number]

/** Parts of a whole in percent; a dash when there is no whole. */
export const formatPercent = (part: number, whole: number): string =>
  whole <= 0 ? '–' : `${Math.round((100 * part) / whole)} %`

const KIND_NAMES: Readonly<Record<string, string>> = {
  content: 'Content of sent mail',
  events: 'Event log',
  inbound: 'Received mail',
  logs: 'Emails',
  audit: 'Audit log',
}

const GROUP_NAMES: Readonly<Record<string, string>> = {
  logs: 'Emails and their status',
  events: 'Event log',
  figures: 'Counters and daily statistics',
  webhooks: 'Webhooks and their history',
  contacts: 'Contacts and suppressions',
  inbound: 'Received mail',
  audit: 'Audit log',
  other: 'Everything else',
}

const SOURCE_NAMES: Readonly<Record<string, string>> = {
  reputation: 'Bounces and complaints',
  scam_classifier: 'Content of its mail',
  registration_burst: 'Burst of registrations',
  admin: 'An operator',
}

/** A kind of data that is retained. Unknown names are shown as they are. */
export const toKindName = (kind: string): string => KIND_NAMES[kind] ?? kind
export const toGroupName = (group: string): string => GROUP_NAMES[group] ?? group
export const toSourceName = (source: string): string => SOURCE_NAMES[source] ?? source

/** A value from a finding as short text: a list by its elements, other structures as JSON. */
export function toDetailText(value: unknown): string {
  if (Array.isArray(value)) return value.map(toDetailText).join(', ')
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
}

const isBad = ({ status }: DoctorFinding): boolean => status === 'warning' || status === 'failure'

/** Failures first. Delivery alerts have a section of their own, with more about them. */
export const listBad = (findings: readonly DoctorFinding[]): DoctorFinding[] =>
  findings
    .filter((finding) => isBad(finding) && finding.check !== 'delivery_alerts')
    .sort((a, b) => Number(b.status === 'failure') - Number(a.status === 'failure'))

export const listOther = (findings: readonly DoctorFinding[]): DoctorFinding[] =>
  findings.filter((finding) => !isBad(finding))

export function describeOther(others: readonly DoctorFinding[]): string {
  const well = others.filter(({ status }) => status === 'ok').length
  return `${well} well, ${others.length - well} not made`
}

export const toWords = (check: string): string => check.replaceAll('_', ' ')

/** What an operator names in the queue: mail that matches every field. */
export type QueueSelector = Omit<ReleaseOperatorQueueRequest, 'kind'>

export type QueueAction = 'hold' | 'release' | 'retry' | 'bounce' | 'drop'

export type QueueResult = Omit<RetryOperatorQueueResult, 'next_cursor'>

interface ActionWords {
  readonly button: string
  readonly title: string
  readonly effect: string
  readonly isDangerous?: true
  /** Who reads the reason; undefined: it has none. */
  readonly readers?: string
}

export const ACTIONS: Readonly<Record<QueueAction, ActionWords>> = {
  hold: {
    button: 'Hold',
    title: 'Hold this mail?',
    effect:
      'It waits until you release it, and so does what comes later. Held mail ends only at a deadline of its sender.',
    readers: 'operators',
  },
  release: {
    button: 'Release',
    title: 'End holds and redirects?',
    effect: 'Every hold and redirect ends that names at least this mail.',
  },
  retry: {
    button: 'Retry now',
    title: 'Retry this mail now?',
    effect: 'What waits for another attempt is due now, except held and scheduled mail.',
  },
  bounce: {
    button: 'Bounce',
    title: 'Bounce this mail?',
    effect: 'It ends as bounced, with dead letters, and its senders are told. This cannot be undone.',
    readers: 'the senders',
    isDangerous: true,
  },
  drop: {
    button: 'Drop',
    title: 'Drop this mail?',
    effect: 'It is cancelled without a bounce, and its quota is given back. This cannot be undone.',
    isDangerous: true,
  },
}

type Named = string | null | undefined

const describeMail = (start: string, account: Named, domain: Named, provider: Named): string =>
  [
    start,
    ...(account == null ? [] : [`of ${account}`]),
    ...(domain == null ? [] : [`to ${domain}`]),
    ...(provider == null ? [] : [`to the domains of ${provider}`]),
  ].join(' ')

/** Which mail a selector names: `mail to example.com`. */
export const describeSelector = ({ domain, provider, account_id: account, email_id: email }: QueueSelector): string =>
  email === undefined ? describeMail('mail', account && 'one account', domain, provider) : `the email ${email}`

/** Which mail a hold or redirect is about: `Mail of Acme to example.com`. */
export const describeRule = ({
  domain,
  provider,
  account,
  account_id: id,
  email_id: email,
}: OperatorQueueRule): string =>
  email === null ? describeMail('Mail', id && (account ?? 'a deleted account'), domain, provider) : `The email ${email}`

/** What a rule names, so that it can be released. */
export const toRuleSelector = ({ domain, provider, account_id, email_id }: OperatorQueueRule): QueueSelector =>
  email_id === null
    ? {
        ...(domain !== null && { domain }),
        ...(provider !== null && { provider }),
        ...(account_id !== null && { account_id }),
      }
    : { email_id }

const DONE: Readonly<Record<Exclude<QueueAction, 'release'>, string>> = {
  hold: 'is held',
  retry: 'is due now; what was due already is tried now, too',
  bounce: 'has bounced',
  drop: 'was dropped',
}

export function describeResult(
  action: QueueAction,
  { changed, in_delivery: inDelivery, held, suspended }: QueueResult,
): string {
  if (action === 'release')
    return changed === 0 ? 'No hold or redirect names this.' : `${formatCount(changed, 'rule')} ended.`
  return [
    `Mail to ${formatCount(changed, 'recipient')} ${DONE[action]}.`,
    ...(inDelivery === 0 ? [] : [`${inDelivery.toLocaleString()} in delivery left alone.`]),
    ...(held === 0 ? [] : [`${held.toLocaleString()} held left alone.`]),
    ...suspended.map((name) => `${name} is suspended, so its mail waits until you resume it under Providers.`),
  ].join(' ')
}
