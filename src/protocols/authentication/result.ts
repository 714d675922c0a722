/**
 * @module The authentication results of a received message (RFC 8601 §2.7), which `authenticate.ts` creates. Property
 * names are those of the JSON in API responses, because results are stored and sent unchanged.
 */

/** RFC 8601 §2.7. What `temperror` and `permerror` mean is defined by each method. */
export type Verdict = 'pass' | 'fail' | 'softfail' | 'neutral' | 'none' | 'policy' | 'temperror' | 'permerror'

export interface AuthenticationResult {
  readonly spf: Verdict
  /** The best result of all signatures. Signatures that pass come first, then those whose domain aligns with From. */
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
       * The identity that SPF checked: the reverse-path, or HELO when the reverse-path is null (RFC 7208 §2.4). Left
       * out when SPF was not checked.
       */
      readonly identity?: 'mailfrom' | 'helo'
      readonly comment: string | null
    }
    /** The first signatures, at most 10. */
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

/** The result when nothing was checked, for a reason unrelated to the sender. */
export const UNKNOWN_AUTHENTICATION: AuthenticationResult = {
  spf: 'temperror',
  dkim: 'temperror',
  dmarc: 'temperror',
  arc: 'temperror',
  iprev: 'temperror',
  details: {
    spf: { result: 'temperror', domain: '', client_ip: '', helo: '', comment: null },
    dkim: [],
    dmarc: { result: 'temperror', domain: '', policy: null, comment: null },
    arc: { result: 'temperror', instances: 0, comment: null },
    iprev: { result: 'temperror', name: null },
  },
}
