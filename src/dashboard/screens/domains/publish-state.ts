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
}

/** The credentials of a provider, as fields of a form. */
export const toFields = ({ fields }: DomainPublish['providers'][number]): Field[] => [
  ...fields.map(({ name, label, hint, is_secret: isSecret, is_required: isRequired }): Field => {
    const kind = isSecret ? 'password' : 'code'
    return { name, errorName: `credentials.${name}`, label, kind, isRequired, hint }
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

/** Where a record is, what is there, what is to be, without the values that stay, and why. */
export function listNotes({ type, name, action, before, after, reason, state, error }: PlannedRecord) {
  const list = (word: string, values: readonly string[], others: readonly string[] = [], maxLength?: number) =>
    values
      .filter((value) => !others.includes(value))
      .map((value) => ({
        word,
        value: maxLength && value.length > maxLength ? `${value.slice(0, maxLength)}…` : value,
      }))
  const changes = [
    ...list('Before:', before, after),
    ...(action === 'create' ? list('New:', after, before, MAX_LENGTH) : list('After:', after, before)),
  ]
  return [
    { word: type, value: name },
    ...(action === 'conflict' ? list('There now:', before) : state === 'planned' ? changes : []),
    ...[action === 'create' ? null : reason, error].flatMap((word) => (word ? [{ word, value: '' }] : [])),
  ]
}

export const toState = ({ action, state }: PlannedRecord): State =>
  state === 'failed' ? { tone: 'bad', word: 'Not published' } : ACTIONS[action]

/** What a table shows: the plan, or what is still to be done after it; the records of the page turn green below it. */
export const listRows = ({ dry_run: isPlan, records }: Plan): readonly PlannedRecord[] =>
  isPlan ? records : records.filter(({ action, state }) => action === 'conflict' || state === 'failed')

/** What a plan comes to, or what became of what was published. */
export function describePlan(domain: Domain, dns: DomainDns | undefined, plan: Plan): State {
  const { dry_run: isPlan, records, summary } = plan
  if (isPlan && records.every(({ action }) => action === 'leave'))
    return { tone: 'good', word: 'All records are there: nothing is to be changed.' }
  if (isPlan) return { tone: 'neutral', word: summary }
  const sends = domain.status === 'verified' ? ` ${domain.domain} sends its mail.` : ''
  const toDo = listRows(plan)
  if (sends && toDo.length === 0 && dns && isDone(domain, dns))
    return { tone: 'good', word: `All records are there.${sends}` }
  const tone = toDo.length === 0 ? 'waiting' : toDo.some(({ state }) => state === 'failed') ? 'bad' : 'warning'
  return { tone, word: `${summary}${sends}` }
}
