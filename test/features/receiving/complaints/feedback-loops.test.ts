import { expect, test } from 'bun:test'
import { findFeedbackLoop } from '#features/receiving/complaints/match.ts'
import type { AuthenticationResult, Verdict } from '#protocols/authentication/result.ts'

const EXTRA = { feedbackLoops: ['fbl@provider.test', 'loops.provider.test'] }
const YAHOO = 'feedback@arf.mail.yahoo.com'

interface Sender {
  readonly mailFrom?: string
  readonly from?: readonly string[]
  readonly spf?: Verdict
  readonly identity?: 'mailfrom' | 'helo'
  readonly dkim?: Verdict
  readonly aligned?: boolean
}

function loopOf({
  mailFrom = '',
  from = [],
  spf = 'none',
  identity = 'mailfrom',
  dkim = 'none',
  aligned = true,
}: Sender) {
  const authentication = {
    details: { spf: { result: spf, identity }, dkim: [{ result: dkim, aligned }] },
  } as unknown as AuthenticationResult
  const received = { envelope: { mailFrom }, message: { fromAddresses: from }, authentication } as unknown
  return findFeedbackLoop(EXTRA, received as Parameters<typeof findFeedbackLoop>[1])
}

// Proves: notify-41
test.each([
  ['SPF passes for the envelope', { mailFrom: YAHOO, spf: 'pass' }, 'Yahoo'],
  ['the envelope is in capitals', { mailFrom: YAHOO.toUpperCase(), spf: 'pass' }, 'Yahoo'],
  ['an aligned signature passes for From', { from: ['staff@hotmail.com'], dkim: 'pass' }, 'Microsoft'],
  ['an address of the setting', { mailFrom: 'fbl@provider.test', spf: 'pass' }, 'fbl@provider.test'],
  ['a domain of the setting', { from: ['any@loops.provider.test'], dkim: 'pass' }, 'loops.provider.test'],
  ['nothing passes', { mailFrom: YAHOO, from: [YAHOO], spf: 'softfail', dkim: 'fail' }, undefined],
  ['SPF passes for HELO only', { mailFrom: YAHOO, spf: 'pass', identity: 'helo' }, undefined],
  ['SPF passes for another envelope', { mailFrom: 'a@mallory.test', from: [YAHOO], spf: 'pass' }, undefined],
  ['the signature is not aligned', { from: [YAHOO], dkim: 'pass', aligned: false }, undefined],
  ['From has two addresses', { from: [YAHOO, 'a@mallory.test'], dkim: 'pass' }, undefined],
  [
    'a mailbox that the public can have there',
    { from: ['mallory@hotmail.com'], mailFrom: 'mallory@hotmail.com', spf: 'pass', dkim: 'pass' },
    undefined,
  ],
  ['another address of the domain of a configured address', { mailFrom: 'a@provider.test', spf: 'pass' }, undefined],
] as const satisfies readonly (readonly [string, Sender, string | undefined])[])(
  'finds the feedback loop only with proof of its sender: %s',
  (_, sender, loop) => {
    expect(loopOf(sender)).toBe(loop)
  },
)
