/** @module The authentication result of a message that was not checked. */
import type { AuthenticationResult } from './result.ts'

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
