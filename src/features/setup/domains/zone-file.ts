/**
 * @module Formats DNS records as a zone file (RFC 1035 §5): a line for the command line, and a whole file to import.
 * Importing it never adds a second SPF, DMARC or MX record to existing ones: whatever is not known to be missing is a
 * comment.
 */
import type { CheckKey, DnsRecord } from './dns-records.ts'
import type { PublishedDnsWire } from './model.ts'

const TTL_SECONDS = 3600
const MAX_STRING_OCTETS = 255
const MAX_LINE_LENGTH = 100

/** A record as one line; `name` as the file has it: with a trailing dot, or relative to its origin. */
export function formatZoneLine(
  name: string,
  { type, value, priority }: Pick<DnsRecord, 'type' | 'value'> & { readonly priority?: number | null },
): string {
  const data = type === 'TXT' ? formatTxtData(value) : type === 'MX' ? `${priority ?? 0} ${value}.` : `${value}.`
  return `${name} ${TTL_SECONDS} IN ${type} ${data}`
}

/** Formats quoted character strings (RFC 1035 §5.1). All values are ASCII. */
export function formatTxtData(value: string): string {
  const strings: string[] = []
  for (let from = 0; from < value.length; from += MAX_STRING_OCTETS)
    strings.push(`"${value.slice(from, from + MAX_STRING_OCTETS).replace(/["\\]/g, '\\$&')}"`)
  return strings.join(' ')
}

const TITLES: Readonly<Record<CheckKey, string>> = {
  spf: 'SPF: which addresses send for the domain',
  dkim: 'DKIM: the key that verifies signatures',
  dkim_ed25519: 'DKIM with Ed25519: the key of a second signature; optional',
  dkim_next: 'DKIM: the next key, which signs once this is published; keep the present one',
  dkim_ed25519_next: 'DKIM with Ed25519: the next key',
  dmarc: 'DMARC: the policy for mail that fails',
  return_path: 'Return path: bounces reach this service',
  mx: 'MX: mail to the domain reaches this service',
  tracking: 'Tracking host: tracked links lead to this service',
  tls_reports: 'TLS reports: senders report failed sessions; optional',
}

/** The file for the zone of the domain, with what DNS had when it was read. */
export function formatZoneFile({ domain, zone, records, checked_at: checkedAt }: PublishedDnsWire): string {
  const blocks = Object.entries(records).map(([key, record]) => formatBlock(TITLES[key as CheckKey], record, zone))
  return [
    ...toComment(
      `DNS records of ${domain} for sending with this service. DNS was asked at ${checkedAt}. Import this file into the zone ${zone}. Lines that begin with a semicolon are comments: those records exist already, or need a decision of yours.`,
    ),
    `$ORIGIN ${zone}.`,
    `$TTL ${TTL_SECONDS}`,
    ...blocks.flatMap((block) => ['', ...block]),
    '',
  ].join('\n')
}

function formatBlock(title: string, record: PublishedDnsWire['records']['spf'], zone: string): string[] {
  const { name, expected, keep, status, detail } = record
  const isElsewhere = record.zone !== zone
  const owner = isElsewhere ? `${name}.` : name === zone ? '@' : name.slice(0, -zone.length - 1)
  const values = [status === 'wrong' && keep !== undefined ? keep : expected, ...(record.further_values ?? [])]
  const lines = values.map((value) => formatZoneLine(owner, { ...record, value }))
  if (status === 'missing' && !isElsewhere) return [...toComment(title), ...lines]
  const reason =
    status === 'verified'
      ? `Exists already; nothing to do. ${detail}`
      : status === 'missing'
        ? `Missing; publish it in the zone ${record.zone}, which this file is not for.`
        : status === 'unanswered'
          ? `Unknown. ${detail} If there is no such record, remove the semicolon.`
          : `Exists, but must be changed by hand. ${detail}`
  return [
    ...toComment(title),
    ...toComment(reason),
    ...(status === 'verified' ? [] : lines.map((line) => `; ${toPrintable(line)}`)),
  ]
}

/** Values from DNS must not end a line. */
const toPrintable = (text: string): string => text.replace(/[^\x20-\x7e]/g, '?')

function toComment(text: string): string[] {
  const lines: string[] = []
  for (const word of toPrintable(text).split(/ +/)) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + word.length < MAX_LINE_LENGTH) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(`; ${word}`)
  }
  return lines
}
