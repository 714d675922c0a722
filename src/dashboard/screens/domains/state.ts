/** @module What the state of a domain and of its records means, in words. Pure. */
import type { Domain, DomainDns } from '#client/api.ts'
import type { State } from '../../parts/tone.ts'

export type RecordKey = keyof DomainDns['records']
export type DnsRecordView = DomainDns['records']['spf'] & { readonly key: RecordKey }

interface DomainState extends State {
  /** What `word` leaves out; followed by the time `until`. */
  readonly detail: string
  readonly until: string | null
}

/** In which order records are shown: those at the same name together, those that sending needs first. */
export const RECORDS: Readonly<Record<RecordKey, { readonly name: string; readonly purpose: string }>> = {
  spf: { name: 'SPF', purpose: 'Lets Tassis send for you.' },
  return_path: { name: 'Return path', purpose: 'Brings bounces back.' },
  dkim_next: { name: 'New DKIM key', purpose: 'Replaces the DKIM key once found. Keep the present record.' },
  dkim_ed25519_next: { name: 'New DKIM key (Ed25519)', purpose: 'Replaces the Ed25519 key.' },
  dkim: { name: 'DKIM', purpose: 'Signs your mail.' },
  dmarc: { name: 'DMARC', purpose: 'Recommended: guards against forgery.' },
  mx: { name: 'Inbound MX', purpose: 'Receives mail.' },
  tracking: { name: 'Tracking host', purpose: 'Tracked links under your name.' },
  dkim_ed25519: { name: 'DKIM (Ed25519)', purpose: 'Optional: a second signature.' },
  tls_reports: { name: 'TLS reports', purpose: 'Optional: reports of failed TLS sessions.' },
}

const ORDER = Object.keys(RECORDS) as readonly RecordKey[]

export const RECORD_STATES: Readonly<Record<DnsRecordView['status'], State>> = {
  verified: { tone: 'good', word: 'Verified' },
  missing: { tone: 'waiting', word: 'Not found yet' },
  wrong: { tone: 'bad', word: 'Needs a change' },
  unanswered: { tone: 'warning', word: 'DNS did not answer' },
}

export const listNames = (keys: readonly string[]): string =>
  keys.map((key) => RECORDS[key as RecordKey]?.name ?? key).join(', ')

export function describeDomain(domain: Domain): DomainState {
  const lost = listNames(domain.lost_records ?? [])
  const until = domain.sends_until ?? null
  if (domain.status === 'verified') {
    if (until === null) return { tone: 'good', word: 'Verified', detail: '', until: null }
    return { tone: 'warning', word: `Lost ${lost}`, detail: 'sends until', until }
  }
  if (domain.covered_by) return { tone: 'good', word: 'Sends', detail: `Signed by ${domain.covered_by}`, until: null }
  if (until === null) return { tone: 'waiting', word: 'Waiting for DNS', detail: '', until: null }
  return { tone: 'bad', word: 'Does not send', detail: `lost ${lost}; stopped`, until }
}

/** Whether the domain was never verified: its mail is captured and not sent, unless a domain above it signs it. */
export const isNew = (domain: Domain): boolean => domain.status === 'pending' && !domain.records_lost_at

/** Whether nothing is missing without the record. */
const isOptional = (key: RecordKey): boolean => key === 'dkim_ed25519' || key === 'tls_reports' || isNext(key)

/** Whether the record is of a key that replaces the present one: the domain sends without it. */
const isNext = (key: RecordKey): key is 'dkim_next' | 'dkim_ed25519_next' =>
  key === 'dkim_next' || key === 'dkim_ed25519_next'

/** The records without which a domain does not do what its settings say, as last stored. */
export function listMarks(domain: Domain) {
  const sends = domain.covered_by !== undefined || (domain.status === 'verified' && !domain.records_lost_at)
  const isUsed = (key: RecordKey): boolean => {
    if (key === 'mx') return domain.inbound_enabled
    if (key === 'tracking') return Boolean(domain.tracking_domain)
    return !sends && key !== 'dmarc' && !isOptional(key)
  }
  return ORDER.filter(isUsed).map((key) => ({ key, isVerified: isVerified(domain, key) }))
}

/** The record of TLS reports is not stored, so no check can improve it. */
const isVerified = (domain: Domain, key: RecordKey): boolean =>
  key === 'tls_reports' ||
  (key === 'tracking' ? domain.tracking_domain_verified : !isNext(key) && domain[`${key}_verified`])

export const listRecords = ({ records }: DomainDns): DnsRecordView[] =>
  ORDER.flatMap((key) => {
    const record = records[key]
    return record ? [{ ...record, key }] : []
  })

/**
 * Whether DNS has a record that is stored as unverified. Only then does an open page have the results stored: a record
 * that is missing for a moment is left to the scheduled checks, which tolerate that.
 */
export const hasImproved = (domain: Domain, dns: DomainDns): boolean =>
  listRecords(dns).some(
    ({ key, status }) => status === 'verified' && !isVerified(domain, key) && (!isNext(key) || canRotate(domain, dns)),
  )

/** A former DKIM selector, whose records must stay in DNS for a while. */
interface FormerKey {
  /** Full names of its records: of the RSA key, and of the Ed25519 key, which may not have been published. */
  readonly names: readonly string[]
  readonly keepUntil: string
  readonly isRemovable: boolean
}

export const listFormerKeys = ({ domain, former_dkim_selectors: former = [] }: Domain, now: number): FormerKey[] =>
  former.map(({ selector, keep_until: keepUntil }) => ({
    names: [selector, `${selector}e`].map((label) => `${label}._domainkey.${domain}`),
    keepUntil,
    isRemovable: Date.parse(keepUntil) <= now,
  }))

/** Whether DNS has the records without which the new keys do not replace the present ones. */
const canRotate = ({ dkim_ed25519_verified: needsBoth }: Domain, { records }: DomainDns): boolean =>
  records.dkim_next?.status === 'verified' && (!needsBoth || records.dkim_ed25519_next?.status === 'verified')

/** Whether DNS has all records of the domain, and all are stored as verified. */
export const isDone = (domain: Domain, dns: DomainDns): boolean =>
  listRecords(dns).every(({ key, status }) => status === 'verified' || isOptional(key)) && !hasImproved(domain, dns)

/** Whether a domain counts as verified although DNS now lacks one of its records, and no check has stored that. */
export const isUnproven = (domain: Domain, dns: DomainDns): boolean =>
  domain.status === 'verified' &&
  !domain.records_lost_at &&
  listRecords(dns).some(
    ({ key, status }) => !isOptional(key) && isVerified(domain, key) && (status === 'missing' || status === 'wrong'),
  )

/** The domain in what a user typed or pasted: an address of a web page or of a mailbox has more. */
export function toTypedDomain(text: string): string {
  const [host = ''] = text
    .trim()
    .replace(/^https?:\/\//i, '')
    .split(/[/?#]/, 1)
  return host.slice(host.lastIndexOf('@') + 1)
}

/** What belongs at the name: the existing record that stays, the one that keeps its terms, or the expected one. */
export const toPublish = ({ expected, keep }: DnsRecordView): string => keep ?? expected

/** The note on a record that exists already; undefined: there is none. */
export function describeKept({ status, keep, inherited_from: parent }: DnsRecordView): string | undefined {
  if (parent) return `Inherited from ${parent}: no record is needed here.`
  if (!keep) return undefined
  return status === 'verified'
    ? 'Your existing record. It stays as it is.'
    : 'Replace your record with this one, which keeps its terms and adds Tassis. There may be only one.'
}

const NO_SUCH_NAME = ' itself does not exist in DNS'
const ADVICE = ['Publish a', 'Replace it with ']

/** What a check found, without what the status, the fields of the record and the line on its zone say already. */
export function toFinding(record: DnsRecordView): string {
  const { detail, status } = record
  const end = detail.endsWith(toPublish(record)) ? Math.max(...ADVICE.map((text) => detail.lastIndexOf(text))) : -1
  const sentences = (end < 0 ? detail : detail.slice(0, end)).trim().replaceAll('. ', '.\n').split('\n')
  return sentences
    .filter((text) => !(status === 'missing' && text.startsWith('There is no ')) && !text.includes(NO_SUCH_NAME))
    .join(' ')
}

/** By which is kept what the service remarked on when the domain was registered a moment ago. */
export const toWarningsKey = (id: string) => ['domain-warnings', id]
