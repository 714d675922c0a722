/** @module Formats DNS records as blocks and as zone file lines (RFC 1035 §5), and the results of DNS checks. */
import { findUnansweredReason } from '#features/setup/domains/check-result.ts'
import {
  type ByRecord,
  DNS_RECORD_KEYS,
  type DnsRecord,
  type DnsRecordKey,
} from '#features/setup/domains/dns-records.ts'
import { type CheckKey, SENDING_RECORDS } from '#features/setup/domains/verification-state.ts'
import type { CheckView } from '#features/setup/domains/verify.ts'
import { formatZoneLine } from '#features/setup/domains/zone-file.ts'
import { formatTable } from './output.ts'

/** A DNS record to publish. */
export interface RecordView {
  readonly key: CheckKey
  readonly type: DnsRecord['type']
  readonly host: string
  readonly value: string
  readonly priority: number | null
  readonly verified: boolean
}

const PURPOSES: Readonly<Record<RecordView['key'], string>> = {
  spf: 'SPF, needed to send',
  dkim: 'DKIM, needed to send',
  dkim_ed25519: 'DKIM with Ed25519, optional: mail gets a second signature',
  dkim_next: 'DKIM, new key: signs once this record is found; keep the present one',
  dkim_ed25519_next: 'DKIM with Ed25519, new key: likewise',
  dmarc: 'DMARC, recommended; keep an existing record',
  return_path: 'return path for bounces, needed to send',
  mx: 'inbound, only if Tassis is to receive the mail of this domain INSTEAD OF its present mail server',
  tracking: 'host of tracked links; may be in another domain',
}

/**
 * Formats one block per record, with each value on its own line.
 * @param isChecked whether DNS was checked after the operator marked the domain verified, if that happened
 */
export function formatRecords(domain: string, records: readonly RecordView[], isChecked: boolean): string {
  const blocks = records.map((record) =>
    [
      `${PURPOSES[record.key]}${record.verified ? (isChecked ? ' (found)' : ' (not checked)') : ''}`,
      `  Type      ${record.type}`,
      `  Name      ${record.host}`,
      ...(record.priority === null ? [] : [`  Priority  ${record.priority}`]),
      `  Value     ${record.value}`,
    ].join('\n'),
  )
  return [`Publish these records in the DNS of ${domain}:`, ...blocks].join('\n\n')
}

const DKIM_KEYS = ['dkim_ed25519', 'dkim_next', 'dkim_ed25519_next'] as const

/** Formats the result of each check; DNS failures follow once below the table, with the DNS servers that were asked. */
export function formatChecks(checks: ByRecord<CheckView>, dnsServers: readonly string[]): string {
  const reasons = new Set<string>()
  const rows = [...DNS_RECORD_KEYS, ...DKIM_KEYS].flatMap((key) => {
    const check = checks[key]
    if (!check) return []
    const { verified, detail } = check
    const reason = findUnansweredReason(detail)
    if (reason === undefined) return [[key, verified ? 'ok' : describeFailure(key), detail]]
    reasons.add(reason)
    return [[key, 'unknown', `no answer; stays ${verified ? 'verified' : 'unverified'}`]]
  })
  const explanations = [...reasons].map(
    (reason) =>
      `DNS gave no answer: ${reason}. This says nothing about the records; check again in a few minutes.\nAsked: ${dnsServers.join(', ')}. TASSIS_DNS_SERVERS sets which DNS servers are asked.`,
  )
  return [formatTable(['RECORD', '', 'FOUND'], rows), ...explanations].join('\n\n')
}

/** Describes a failed check; a missing record is a problem only if sending needs it. */
const describeFailure = (key: DnsRecordKey | (typeof DKIM_KEYS)[number]): string => {
  if (key === 'dkim_next' || key === 'dkim_ed25519_next') return 'publish'
  if (key === 'mx' || key === 'dkim_ed25519') return 'optional'
  return SENDING_RECORDS.includes(key) ? 'NOT OK' : 'advised'
}

/**
 * Formats one line per record, TXT values in strings of at most 255 octets. The inbound MX is commented out, because
 * publishing it redirects the domain's mail.
 */
export function formatZone(records: readonly RecordView[]): string {
  return records
    .map((record) => {
      const line = formatZoneLine(`${record.host}.`, record)
      return record.key === 'mx' ? `; ${PURPOSES.mx}:\n; ${line}` : line
    })
    .join('\n')
}
