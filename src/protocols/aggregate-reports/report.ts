/**
 * @module The metadata of a report about a domain's mail: DMARC aggregate (RFC 9990) and TLS-RPT (RFC 8460). Types
 * only; `parse.ts` creates them.
 */

/** An unpacked and recognised report. */
export interface AggregateReport {
  readonly kind: 'dmarc' | 'tls'
  /** The domain that the report is about, in A-labels. */
  readonly domain: string
  readonly organisation: string
  readonly reportId: string
  /** The period that the report covers, in milliseconds since the epoch. */
  readonly beginMs: number | null
  readonly endMs: number | null
  /** The XML or JSON, unpacked but otherwise unchanged. */
  readonly content: Uint8Array
}
