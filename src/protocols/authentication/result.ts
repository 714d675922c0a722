/** @module What authentication says of a received message (RFC 8601 §2.7). Types only; `authenticate.ts` finds it out. Wire names: it is stored and told as it is. */

/** RFC 8601 §2.7; `error` words are those of the method. */
export type Verdict = 'pass' | 'fail' | 'softfail' | 'neutral' | 'none' | 'policy' | 'temperror' | 'permerror'

export interface AuthenticationResult {
  readonly spf: Verdict
  /** The best of all signatures, one aligned with From before others. */
  readonly dkim: Verdict
  /** RFC 9989. */
  readonly dmarc: Verdict
  readonly arc: Verdict
  /** Forward-confirmed reverse DNS (RFC 8601 §3). */
  readonly iprev: Verdict
  /** Everything behind it. */
  readonly details: {
    readonly spf: {
      readonly result: Verdict
      readonly domain: string
      readonly client_ip: string
      readonly helo: string
      /** Whose domain was checked: the reverse-path's, or that of HELO when it is null (RFC 7208 §2.4). Left out: nothing was. */
      readonly identity?: 'mailfrom' | 'helo'
      readonly comment: string | null
    }
    /** Of at most the first 10 signatures. */
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
