/** @module What is said of a message that nobody looked into. */
import type { AuthenticationResult } from './result.ts'

/** Nothing was found out, and not for a reason that the sender gave. */
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
