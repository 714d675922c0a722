/** @module What publishing the records of a domain by API takes, and what became of it, in words. Pure. */
import type {
  Domain,
  DomainDns,
  DomainPublish,
  CreateDomainPublishResult as Plan,
  CreateDomainPublishRequest as Request,
} from '#client/api.ts'
import type { Field } from '../../parts/fields.ts'
import { formatCount } from '../../parts/format.ts'
import type { State } from '../../parts/tone.ts'
import { isDone } from './state.ts'

export type PlannedRecord = Plan['records'][number]

/** A plan, or what became of it, with its request, which is forgotten with the page. */
export interface Sent {
  readonly body: Request
  readonly plan: Plan
  readonly startedAt: number
  /** When all records were in DNS. */
  readonly endedAt?: number
}

/** The credentials of a provider, as fields of a form. */
export const toFields = ({ fields }: DomainPublish['providers'][number]): Field[] => [
  ...fields.map(({ name, label, hint, ...field }): Field => {
    const kind = field.is_secret ? 'password' : 'code'
    return { name, errorName: `credentials.${name}`, label, kind, isRequired: field.is_required, ...(hint && { hint }) }
  }),
  {
    name: 'keep',
    kind: 'check',
    label: 'Keep the token for this domain, sealed, so that new DKIM keys and inbound mail are published too',
  },
]

const ACTIONS: Readonly<Record<PlannedRecord['action'], State>> = {
  create: { tone: 'active', word: 'Create' },
  change: { tone: 'warning', word: 'Change' },
  leave: { tone: 'neutral', word: 'Leave as it is' },
  conflict: { tone: 'bad', word: 'Conflict, not touched' },
}

/** Of the button that carries out a plan; undefined: it would do nothing. */
export function toPublishLabel({ records }: Plan, { credentials, keep }: Request): string | undefined {
  const count = records.filter(({ action }) => action === 'create' || action === 'change').length
  return count > 0 ? `Publish ${formatCount(count, 'record')}` : credentials && keep ? 'Keep the token' : undefined
}

/** Of a new value: a key is long, and in the table of records in full. */
const MAX_LENGTH = 120

/** What a plan comes to. */
export const describePlan = ({ records, summary }: Plan): string =>
  records.every(({ action }) => action === 'leave') ? 'All records are there: nothing is to be changed.' : summary

/** Where a record is, what is there, what is to be, without the values that stay, and why. */
export function listNotes({ type, name, action, before, after, reason, state, error }: PlannedRecord) {
  const without = (values: readonly string[], others: readonly string[]) =>
    state === 'planned' ? values.filter((value) => !others.includes(value)) : []
  return [
    { word: type, value: name },
    ...(action === 'conflict' ? before : []).map((value) => ({ word: 'There now:', value })),
    ...without(before, after).map((value) => ({ word: 'Before:', value })),
    ...without(after, before).map((value) =>
      action === 'create'
        ? { word: 'New:', value: value.length > MAX_LENGTH ? `${value.slice(0, MAX_LENGTH)}…` : value }
        : { word: 'After:', value },
    ),
    ...[action === 'create' ? null : reason, error].flatMap((word) => (word ? [{ word, value: '' }] : [])),
  ]
}

export const toState = ({ action, state }: PlannedRecord): State =>
  state === 'failed' ? { tone: 'bad', word: 'Not published' } : ACTIONS[action]

/** What a table shows: the plan, or what is still to be done after it; the records of the page turn green below it. */
export const listRows = ({ dry_run: isPlan, records }: Plan): readonly PlannedRecord[] =>
  isPlan ? records : records.filter(({ action, state }) => action === 'conflict' || state === 'failed')

/** What became of what was published. */
export function describeOutcome(domain: Domain, dns: DomainDns, sent: Sent, now: number): State {
  const { plan, startedAt, endedAt = now } = sent
  const isSending = domain.status === 'verified'
  const toDo = listRows(plan)
  const seconds = Math.max(1, Math.round((endedAt - startedAt) / 1000))
  if (isSending && toDo.length === 0 && isDone(domain, dns))
    return { tone: 'good', word: `All records are there; ${domain.domain} sends its mail. It took ${seconds} s.` }
  const tone = toDo.length === 0 ? 'waiting' : toDo.some(({ state }) => state === 'failed') ? 'bad' : 'warning'
  return { tone, word: isSending ? `${plan.summary} ${domain.domain} sends its mail.` : plan.summary }
}
