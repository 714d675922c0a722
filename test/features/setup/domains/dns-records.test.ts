import { expect, test } from 'bun:test'
import { buildDnsRecords, formatSpfValue } from '#features/setup/domains/dns-records.ts'

const DNS = {
  domain: 'example.com',
  selector: 'ts1',
  dkimPublicKey: 'MIIBIj',
  ed25519PublicKey: null,
  nextDkim: null,
  sendingSubdomain: 'send',
  hostname: 'mail.tassis.test',
  outboundIps: ['192.0.2.1', '2001:db8::1'],
}

// Proves: domain-14
test('records have full names without a trailing dot, unquoted values and a separate MX priority', () => {
  const verified = { spf: true, dkim: false, dmarc: true, return_path: false, mx: false }
  expect(buildDnsRecords({ ...DNS, verified })).toEqual({
    spf: {
      type: 'TXT',
      host: 'send.example.com',
      value: 'v=spf1 ip4:192.0.2.1 ip6:2001:db8::1 -all',
      verified: true,
    },
    dkim: { type: 'TXT', host: 'ts1._domainkey.example.com', value: 'v=DKIM1; k=rsa; p=MIIBIj', verified: false },
    dmarc: { type: 'TXT', host: '_dmarc.example.com', value: 'v=DMARC1; p=none;', verified: true },
    return_path: { type: 'MX', host: 'send.example.com', value: 'mail.tassis.test', priority: 10, verified: false },
    mx: { type: 'MX', host: 'example.com', value: 'mail.tassis.test', priority: 10, verified: false },
  })
})

test('SPF names our host when no addresses are configured', () => {
  expect(formatSpfValue({ ...DNS, outboundIps: [] })).toBe('v=spf1 a:mail.tassis.test ~all')
})
