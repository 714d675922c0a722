/** @module Reads where a domain wants its TLS reports: the TXT record at `_smtp._tls` (RFC 8460 §3). Pure. */

/** Maximum number of destinations of one domain; further ones are ignored. */
const MAX_DESTINATIONS = 3
const MAX_URI_LENGTH = 1000

export type ReportDestination =
  | { readonly kind: 'mail'; readonly address: string }
  | { readonly kind: 'https'; readonly url: string }

/**
 * Returns the destinations in the TXT records of a name. More than one record for TLS reports counts as none; unknown
 * kinds of destinations are ignored.
 */
export function parseTlsReportRecord(texts: readonly string[]): readonly ReportDestination[] {
  const records = texts.filter((text) => /^v=TLSRPTv1[ \t]*;/.test(text))
  const [record] = records
  if (record === undefined || records.length > 1) return []
  const uris = /;[ \t]*rua=([^;]*)/.exec(record)?.[1]?.split(',') ?? []
  return uris.flatMap((uri) => parseDestination(uri.trim()) ?? []).slice(0, MAX_DESTINATIONS)
}

function parseDestination(uri: string): ReportDestination | undefined {
  if (uri.length > MAX_URI_LENGTH) return undefined
  if (/^https:\/\//i.test(uri)) return URL.canParse(uri) ? { kind: 'https', url: uri } : undefined
  const encoded = /^mailto:([^?]+)/i.exec(uri)?.[1]
  if (encoded === undefined) return undefined
  try {
    return { kind: 'mail', address: decodeURIComponent(encoded) }
  } catch {
    return undefined
  }
}
