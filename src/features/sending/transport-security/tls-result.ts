/** @module How the TLS of a session ended, as structured data. Types only. */
import type { TlsFailureType } from '#protocols/smtp/tls-failures.ts'

export interface TlsResult {
  readonly host: string
  readonly address: string
  /** Undefined when the session was not opened. */
  readonly localAddress?: string
  /** What demanded TLS: `opportunistic`: TLS only if the host offers it; `none`: no TLS. */
  readonly policy: 'none' | 'opportunistic' | 'mta-sts' | 'dane' | 'required'
  /** TLS version and cipher; absent without TLS. */
  readonly version?: string
  readonly cipher?: string
  /** Whether the certificate is valid for the host, or with DANE matches its TLSA records. */
  readonly verified: boolean
  /**
   * What failed, as a result type of RFC 8460 §4.3. With `opportunistic`, the session may have been opened all the
   * same.
   */
  readonly failure?: TlsFailureType
}
