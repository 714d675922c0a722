/** @module A received message for authentication tests: real DNS on a socket, real signatures, a stopped clock. */
import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { randomBelow } from '#platform/ids.ts'
import type { Clock } from '#platform/time/clock.ts'
import { authenticate, type SessionFacts } from '#protocols/authentication/authenticate.ts'
import type { AuthenticationResult } from '#protocols/authentication/result.ts'
import { formatDkimRecord, generateDkimKey } from '#protocols/dkim/keys.ts'
import { signMessage } from '#protocols/dkim/sign.ts'
import { StubResolver } from '#protocols/dns/resolver.ts'
import { type ReceivedQuery, startDnsServer, type Zone } from '#test/support/dns-server.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

export const NOW = Date.UTC(2026, 10, 21)

const key = await generateDkimKey()
export const privateKeyPem = key.privateKeyPem
export const keyRecord = formatDkimRecord(key.publicKey)

const shortKeyPair = generateKeyPairSync('rsa', {
  modulusLength: 768,
  publicKeyEncoding: { type: 'spki', format: 'der' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
})
/** 768 bits: below what RFC 8301 allows a verifier to accept. */
export const shortKey = {
  pem: shortKeyPair.privateKey,
  record: formatDkimRecord(shortKeyPair.publicKey.toString('base64')),
}

export const HOSTNAME = 'mail.tassis.test'

export const facts: SessionFacts = {
  clientIp: '192.0.2.1',
  helo: 'out.sender.test',
  mailFrom: 'news@sender.test',
  hostname: HOSTNAME,
}

/** All checks pass for mail from 192.0.2.1 signed by `sender.test` with the selector `s1`. */
export const createPassingZone = (): Zone => ({
  'sender.test': { TXT: ['v=spf1 ip4:192.0.2.1 -all'] },
  's1._domainkey.sender.test': { TXT: [keyRecord] },
  '_dmarc.sender.test': { TXT: ['v=DMARC1; p=reject; rua=mailto:d@sender.test'] },
  'out.sender.test': { A: ['192.0.2.1'], TXT: ['v=spf1 ip4:192.0.2.1 -all'] },
  '1.2.0.192.in-addr.arpa': { PTR: ['out.sender.test'] },
})

export const createMessage = (from = 'News <news@sender.test>', body = 'Hello\r\n', more = ''): Buffer =>
  Buffer.from(
    `From: ${from}\r\nTo: a@tassis.test\r\nSubject: Hi\r\nDate: Fri, 20 Nov 2026 03:04:05 +0000\r\n${more}\r\n${body}`,
    'latin1',
  )

export const signForTest = (message: Uint8Array, domain = 'sender.test', selector = 's1'): Buffer =>
  Buffer.from(signMessage(message, { domain, selector, privateKey: createPrivateKey(privateKeyPem) }))

export interface AuthenticationRun {
  readonly result: AuthenticationResult
  readonly queries: readonly ReceivedQuery[]
}

export interface RunOptions {
  readonly zone?: Zone
  readonly facts?: Partial<SessionFacts>
  /** Clock of the checks. The resolver has its own, which keeps running. */
  readonly clock?: Clock
}

/** Authenticates `raw`; returns the result and the DNS queries. */
export async function runAuthentication(
  raw: Uint8Array,
  { zone = createPassingZone(), facts: other, clock }: RunOptions = {},
): Promise<AuthenticationRun> {
  await using server = await startDnsServer(zone)
  const own = new ManualClock(NOW)
  using resolver = new StubResolver({ servers: [server.address], clock: own, randomId: () => randomBelow(65_536) })
  const result = await authenticate(raw, { ...facts, ...other }, resolver, clock ?? own)
  return { result, queries: server.queries }
}

/** The five verdicts in one line: `spf=pass dkim=pass dmarc=pass arc=none iprev=pass`. */
export async function summariseVerdicts(raw: Uint8Array, received: RunOptions = {}): Promise<string> {
  const { spf, dkim, dmarc, arc, iprev } = (await runAuthentication(raw, received)).result
  return `spf=${spf} dkim=${dkim} dmarc=${dmarc} arc=${arc} iprev=${iprev}`
}

export const readDetails = async (
  raw: Uint8Array,
  received: RunOptions = {},
): Promise<AuthenticationResult['details']> => (await runAuthentication(raw, received)).result.details
