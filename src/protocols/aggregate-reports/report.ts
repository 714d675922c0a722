/** @module What a report about a domain's mail says of itself: DMARC aggregate (RFC 9990) and TLS-RPT (RFC 8460). Types only; `parse.ts` makes it. */

/** Unpacked and recognised; its content is kept as it came. */
export interface AggregateReport {
  readonly kind: 'dmarc' | 'tls'
  /** Domain that it speaks of, in A-labels. */
  readonly domain: string
  readonly organisation: string
  readonly reportId: string
  /** Period that it covers, in milliseconds since the epoch. */
  readonly beginMs: number | null
  readonly endMs: number | null
  /** XML or JSON. */
  readonly content: Uint8Array
}
