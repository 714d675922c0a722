/**
 * @module Says of each row of a DMARC report whose mail it counts: ours, that of a known service, or of somebody else;
 * and why mail of ours does not pass. Reads nothing: a report and the facts about the domain decide.
 */
import type { DmarcRow } from '#protocols/aggregate-reports/report.ts'
import services from './services.json' with { type: 'json' }

/**
 * `aligned`: ours, passes DMARC. `broken`: ours, fails. `other`: sent elsewhere, passes. `service`: of a known service,
 * fails. `foreign`: of somebody unknown, fails.
 */
export const DMARC_CLASSES = ['aligned', 'broken', 'other', 'service', 'foreign'] as const
export type DmarcClass = (typeof DMARC_CLASSES)[number]

/** Why DKIM does not pass although the mail left our address. */
export const DKIM_CAUSES = ['unsigned', 'missing_key', 'old_selector', 'other_selector', 'dkim_failed'] as const
/**
 * What is remarkable about a row; `''`: nothing. `forwarded`: from a foreign address, our signature survived. `modified`:
 * it did not. `forwarder`: without a signature, with our return path. `list`: the receiver saw a mailing list.
 */
export type RowCause =
  | ''
  | (typeof DKIM_CAUSES)[number]
  | 'spf_missing'
  | 'forwarded'
  | 'modified'
  | 'forwarder'
  | 'list'

export interface SenderFacts {
  /** Our domain at or above that of the report. */
  readonly domain: string
  /** Host names of the envelope senders, whose SPF records list nothing but us. */
  readonly returnPath: string | undefined
  /** Addresses from which our mail leaves; empty when the system chooses. */
  readonly ips: ReadonlySet<string>
  readonly selectors: ReadonlyMap<string, 'active' | 'former'>
  /** Whether other hosts send our mail for us: their addresses are not ours, and forwarders look like them. */
  readonly isRelayed: boolean
}

export interface ClassifiedRow {
  readonly class: DmarcClass
  readonly cause: RowCause
  /** Name of a known service; else the domain that the mail authenticates; `''`: none. */
  readonly sender: string
  readonly selector: string
  /** Whether the mail left our address, so that our counters know it. */
  readonly isFromUs: boolean
}

export function classifyRow(row: DmarcRow, facts: SenderFacts): ClassifiedRow {
  const { domain, returnPath, selectors } = facts
  const isAligned = row.isDkimAligned || row.isSpfAligned
  const own = row.dkim.filter((each) => isWithin(each.domain, domain))
  // Some reporters leave the selector out.
  const ours = own.filter(({ selector }) => selectors.has(selector) || (selector === '' && selectors.size > 0))
  const [signature = own[0]] = [...ours].sort((a, b) => Number(b.result === 'pass') - Number(a.result === 'pass'))
  const hasPassed = ours.some(({ selector, result }) => selectors.has(selector) && result === 'pass')
  const isOurPath = (name: string) => returnPath !== undefined && name === returnPath
  const isFromUs =
    facts.ips.has(row.sourceIp) || row.spf.some((each) => isOurPath(each.domain) && each.result === 'pass')
  const selector = signature?.selector ?? ''
  const asOurs = (cause: RowCause): ClassifiedRow => ({
    class: isAligned ? 'aligned' : 'broken',
    cause,
    sender: domain,
    selector,
    isFromUs,
  })
  if (isFromUs) {
    if (!row.isDkimAligned) return asOurs(findDkimCause(signature, selectors))
    return asOurs(row.isSpfAligned ? '' : 'spf_missing')
  }
  if (hasPassed) return asOurs(facts.isRelayed ? '' : 'forwarded')
  if (!isAligned && ours.some((each) => selectors.has(each.selector)))
    return asOurs(ours.some(({ isKeyMissing }) => isKeyMissing) ? 'missing_key' : 'modified')
  const hasOurPath = isOurPath(row.envelopeFrom) || row.spf.some((each) => isOurPath(each.domain))
  const isForwarded = row.reasons.some((reason) => /forward|mailing_list/.test(reason))
  if (!isAligned && hasOurPath && isForwarded) return asOurs('forwarder')
  const passed = [...row.dkim, ...row.spf].filter(({ result }) => result === 'pass').map((each) => each.domain)
  const service = passed.map(findService).find((name) => name !== undefined)
  const sender = service ?? passed[0] ?? ''
  const rest = { sender, selector: row.dkim[0]?.selector ?? '', isFromUs: false }
  if (isAligned) return { class: 'other', cause: '', ...rest }
  if (service !== undefined) return { class: 'service', cause: '', ...rest }
  return { class: 'foreign', cause: isForwarded ? 'list' : '', ...rest }
}

function findDkimCause(
  signature: DmarcRow['dkim'][number] | undefined,
  selectors: SenderFacts['selectors'],
): (typeof DKIM_CAUSES)[number] {
  if (!signature) return 'unsigned'
  if (!selectors.has(signature.selector) && signature.selector !== '') return 'other_selector'
  if (selectors.get(signature.selector) === 'former') return 'old_selector'
  return signature.isKeyMissing || signature.result === 'permerror' ? 'missing_key' : 'dkim_failed'
}

const isWithin = (name: string, domain: string): boolean => `.${name}`.endsWith(`.${domain}`)

const findService = (name: string): string | undefined =>
  services.find(({ domains }) => domains.some((domain) => isWithin(name, domain)))?.name
