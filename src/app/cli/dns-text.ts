/** @module Formats DNS records as blocks and as zone file lines (RFC 1035 §5), and the results of DNS checks. */
import type { Domain, VerifyDomainResult } from '#client/api.ts'
import { findUnansweredReason } from '#features/setup/domains/check-result.ts'
import { SENDING_RECORDS } from '#features/setup/domains/verification-state.ts'
import { formatZoneLine } from '#features/setup/domains/zone-file.ts'
import { formatTable } from './output.ts'

type Records = Domain['dns_records']
type Key = keyof Records

/** In the order in which they are shown. */
const PURPOSES: Readonly<Record<Key, string>> = {
  spf: 'SPF, needed to send',
  dkim: 'DKIM, needed to send',
  dmarc: 'DMARC, recommended; keep an existing record',
  return_path: 'return path for bounces, needed to send',
  mx: 'inbound, only if Tassis is to receive the mail of this domain INSTEAD OF its present mail server',
  dkim_ed25519: 'DKIM with Ed25519, optional: mail gets a second signature',
  dkim_next: 'DKIM, new key: signs once this record is found; keep the present one',
  dkim_ed25519_next: 'DKIM with Ed25519, new key: likewise',
  tracking: 'host of tracked links; may be in another domain',
}

const KEYS = Object.keys(PURPOSES) as Key[]

const listRecords = (records: Records, keys = KEYS) =>
  keys.flatMap((key) => {
    const record = records[key]
    return record ? [{ key, ...record }] : []
  })

/** Formats one block per record, with each value on its own line. */
export function formatRecords({ domain, dns_records: records, checked_at: checkedAt }: Domain, keys = KEYS): string {
  // Without a check, an operator has marked the domain verified.
  const found = checkedAt ? ' (found)' : ' (not checked)'
  const blocks = listRecords(records, keys).map(({ key, type, host, priority, value, verified }) =>
    [
      `${PURPOSES[key]}${verified ? found : ''}`,
      `  Type      ${type}`,
      `  Name      ${host}`,
      ...(priority === undefined ? [] : [`  Priority  ${priority}`]),
      `  Value     ${value}`,
    ].join('\n'),
  )
  return [`Publish these records in the DNS of ${domain}:`, ...blocks].join('\n\n')
}

type Checks = VerifyDomainResult['checks']

/** Formats the result of each check; DNS failures follow once below the table, with the DNS servers that were asked. */
export function formatChecks(checks: Checks, dnsServers: string): string {
  const reasons = new Set<string>()
  const rows = KEYS.flatMap((key) => {
    const check = checks[key as keyof Checks]
    if (!check) return []
    const { verified, detail } = check
    const reason = findUnansweredReason(detail)
    if (reason === undefined) return [[key, verified ? 'ok' : describeFailure(key), detail]]
    reasons.add(reason)
    return [[key, 'unknown', `no answer; stays ${verified ? 'verified' : 'unverified'}`]]
  })
  const explanations = [...reasons].map(
    (reason) =>
      `DNS gave no answer: ${reason}. This says nothing about the records; check again in a few minutes.\nAsked: ${dnsServers}. TASSIS_DNS_SERVERS sets which DNS servers are asked.`,
  )
  return [formatTable(['RECORD', '', 'FOUND'], rows), ...explanations].join('\n\n')
}

/** Describes a failed check; a missing record is a problem only if sending needs it. */
const describeFailure = (key: Key): string => {
  if (key === 'dkim_next' || key === 'dkim_ed25519_next') return 'publish'
  if (key === 'mx' || key === 'dkim_ed25519') return 'optional'
  return SENDING_RECORDS.some((needed) => needed === key) ? 'NOT OK' : 'advised'
}

/**
 * Formats one line per record, TXT values in strings of at most 255 octets. The inbound MX is commented out, because
 * publishing it redirects the domain's mail.
 */
export const formatZone = ({ dns_records: records }: Domain): string =>
  listRecords(records)
    .map((record) => {
      const line = formatZoneLine(`${record.host}.`, record)
      return record.key === 'mx' ? `; ${PURPOSES.mx}:\n; ${line}` : line
    })
    .join('\n')
