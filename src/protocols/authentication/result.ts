/**
 * @module The authentication results of a received message (RFC 8601 §2.7). Types only; `authenticate.ts` creates them.
 * Property names are those of the wire: results are stored and sent unchanged.
 */

/** RFC 8601 §2.7; `temperror` and `permerror` are as each method defines them. */
export type Verdict = 'pass' | 'fail' | 'softfail' | 'neutral' | 'none' | 'policy' | 'temperror' | 'permerror'

export interface AuthenticationResult {
  readonly spf: Verdict
  /** The best result of all signatures; signatures aligned with From come first. */
  readonly dkim: Verdict
  /** RFC 9989. */
  readonly dmarc: Verdict
  readonly arc: Verdict
  /** Forward-confirmed reverse DNS (RFC 8601 §3). */
  readonly iprev: Verdict
  /** The details behind each verdict. */
  readonly details: {
    readonly spf: {
      readonly result: Verdict
      readonly domain: string
      readonly client_ip: string
      readonly helo: string
      /**
       * The identity that was checked: the reverse-path, or HELO when the reverse-path is null (RFC 7208 §2.4). Left
       * out: none was.
       */
      readonly identity?: 'mailfrom' | 'helo'
      readonly comment: string | null
    }
    /** At most the first 10 signatures. */
    readonly dkim: readonly {
      readonly result: Verdict
      readonly domain: string
      readonly selector: string
      readonly algorithm: string | null
      readonly aligned: boolean
      readonly comment: string | null
    }[]
    readonly dmarc: {
      readonly result: Verdict
      readonly domain: string
      readonly policy: string | null
      readonly comment: string | null
    }
    readonly arc: { readonly result: Verdict; readonly instances: number; readonly comment: string | null }
    readonly iprev: { readonly result: Verdict; readonly name: string | null }
  }
}
