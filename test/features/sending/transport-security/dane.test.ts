import { describe, expect, test } from 'bun:test'
import { createHash, X509Certificate } from 'node:crypto'
import type { TlsaData } from 'dns-packet'
import type { Zone } from '#test/support/dns-server.ts'
import {
  EXPIRED,
  MX,
  OTHER_NAME,
  policyText,
  RECIPIENT_DOMAIN,
  startTlsFlow,
  startTlsReceiver,
  type TlsReceiver,
  type TlsReceiverOptions,
} from '#test/support/tls-receivers.ts'

const TO = `bob@${RECIPIENT_DOMAIN}`

/** A TLSA record of a certificate in PEM. */
function tlsaOf(pem: string, usage: number, selector: number, matchingType: number): TlsaData {
  const certificate = new X509Certificate(pem)
  const bytes = selector === 0 ? certificate.raw : certificate.publicKey.export({ type: 'spki', format: 'der' })
  const hash =
    matchingType === 0
      ? bytes
      : createHash(matchingType === 1 ? 'sha256' : 'sha512')
          .update(bytes)
          .digest()
  return { usage, selector, matchingType, certificate: hash }
}

interface DaneReceiver extends TlsReceiver {
  /** The certificate of the mail host, in PEM. */
  readonly certificate: string
  secure(tlsa: readonly TlsaData[]): void
}

async function startDaneReceiver(options: TlsReceiverOptions = {}): Promise<DaneReceiver> {
  let certificate = ''
  const receiver = await startTlsReceiver({
    ...options,
    certificate: (ca) => {
      const issued = options.certificate?.(ca) ?? ca.issue([MX])
      certificate = issued.cert
      // The server sends its authority as well, as usage 2 requires (RFC 7672 §3.1.2).
      return { ...issued, cert: issued.cert + ca.pem }
    },
  })
  const { zone } = receiver
  zone['.'] = { NS: ['a.root-servers.test'], secure: true }
  zone['dnssec-failed.org'] = 'SERVFAIL'
  return {
    ...receiver,
    certificate,
    secure(tlsa) {
      zone[RECIPIENT_DOMAIN] = { MX: [{ preference: 10, exchange: MX }], secure: true }
      zone[MX] = { A: ['127.0.0.1'], secure: true }
      zone[`_${receiver.sink.port}._tcp.${MX}`] = { TLSA: tlsa, secure: true }
    },
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  }
}

/** Certificates are trusted only by TLSA records: the authority of the tests is not. */
const startFlow = (receiver: TlsReceiver, more: Readonly<Record<string, string>> = {}) =>
  startTlsFlow(receiver, {
    trustsDnssec: true,
    settings: { TASSIS_DANE: 'on', TASSIS_EXTRA_CA_FILE: '', ...more },
  })

describe('a host with TLSA records', () => {
  const matching: [string, TlsReceiverOptions, (receiver: DaneReceiver) => TlsaData[]][] = [
    ['2 1 1', {}, ({ ca }) => [tlsaOf(ca.pem, 2, 1, 1)]],
    ['3 1 0 of an expired certificate', EXPIRED, ({ certificate }) => [tlsaOf(certificate, 3, 1, 0)]],
    ['3 0 2 of a certificate for another name', OTHER_NAME, ({ certificate }) => [tlsaOf(certificate, 3, 0, 2)]],
    ['one of several', {}, ({ certificate, ca }) => [tlsaOf(ca.pem, 3, 1, 1), tlsaOf(certificate, 3, 1, 1)]],
  ]
  test.each(matching)('gets mail when its certificate matches: %s', async (_, options, createRecords) => {
    await using receiver = await startDaneReceiver(options)
    receiver.secure(createRecords(receiver))
    await using flow = await startFlow(receiver)
    const { events } = await flow.outcome(TO)
    expect(events.at(-1)).toMatchObject({
      type: 'delivered',
      data: { tls: expect.stringContaining('certificate matches the TLSA records') },
    })
    expect(receiver.sink.messages).toMatchObject([{ secure: true }])
  })

  const demands = `${RECIPIENT_DOMAIN} demands TLS that matches its TLSA records (DANE): ${MX}[127.0.0.1]:`
  const failing: [string, TlsReceiverOptions, usage: number, string][] = [
    ['matches no record', {}, 3, 'presented a certificate that matches none of its TLSA records'],
    ['is of the authority of a record, but expired', EXPIRED, 2, 'presented an expired certificate'],
    [
      'is of the authority of a record, but for another name',
      OTHER_NAME,
      2,
      'presented a certificate for another name',
    ],
    ['is missing', { offersTls: false }, 3, 'does not offer TLS (STARTTLS)'],
  ]
  test.each(failing)('gets no mail when its certificate %s', async (_, options, usage, words) => {
    await using receiver = await startDaneReceiver(options)
    receiver.secure([tlsaOf(receiver.ca.pem, usage, 1, 1)])
    // DANE comes before MTA-STS, also when it fails.
    receiver.publish(policyText('testing'))
    await using flow = await startFlow(receiver)
    const { recipient, events } = await flow.outcome(TO)
    expect(events.at(-1)).toMatchObject({ type: 'deferred', data: { bounce_category: 'tls_failure' } })
    expect(recipient.lastError).toBe(`${demands}${receiver.sink.port} ${words}`)
    expect(receiver.sink.messages).toEqual([])
  })

  test('of which none can be used gets mail over any TLS', async () => {
    await using receiver = await startDaneReceiver()
    receiver.secure([tlsaOf(receiver.ca.pem, 1, 1, 1), tlsaOf(receiver.ca.pem, 3, 1, 7)])
    await using flow = await startFlow(receiver)
    expect((await flow.outcome(TO)).recipient.status).toBe('sent')
    expect(receiver.sink.messages).toMatchObject([{ secure: true }])
  })

  test('of which none can be used gets no mail in clear', async () => {
    await using receiver = await startDaneReceiver({ offersTls: false })
    receiver.secure([tlsaOf(receiver.ca.pem, 1, 1, 1)])
    await using flow = await startFlow(receiver)
    expect((await flow.outcome(TO)).recipient.lastError).toContain(`${RECIPIENT_DOMAIN} demands TLS (DANE): ${MX}`)
    expect(receiver.sink.messages).toEqual([])
  })

  const unknown: [string, (name: string) => Zone[string]][] = [
    ['cannot be looked up', () => 'SERVFAIL'],
    ['are aliases in a loop', (name) => ({ CNAME: name, secure: true })],
  ]
  test.each(unknown)('gets no mail while the records %s', async (_, toEntry) => {
    await using receiver = await startDaneReceiver()
    receiver.secure([])
    const name = `_${receiver.sink.port}._tcp.${MX}`
    receiver.zone[name] = toEntry(name)
    await using flow = await startFlow(receiver)
    expect((await flow.outcome(TO)).recipient.lastError).toBe(
      `DNSSEC protects the mail hosts of ${RECIPIENT_DOMAIN}, but the TLSA records (DANE) of ${MX} cannot be looked up`,
    )
  })
})

describe('TLSA records do not count', () => {
  const wrong = ({ ca }: DaneReceiver) => [tlsaOf(ca.pem, 3, 1, 1)]
  const unprotected: [string, nameOf: (receiver: DaneReceiver) => string][] = [
    ['of a domain whose MX records DNSSEC does not protect', () => RECIPIENT_DOMAIN],
    ['of a host whose address DNSSEC does not protect', () => MX],
    ['that DNSSEC does not protect themselves', ({ sink }) => `_${sink.port}._tcp.${MX}`],
    ['when the DNS server does not mark the root as authentic', () => '.'],
    ['when the DNS server answers for a name with wrong signatures', () => 'dnssec-failed.org'],
  ]
  test.each(unprotected)('%s', async (_, nameOf) => {
    await using receiver = await startDaneReceiver()
    receiver.secure(wrong(receiver))
    const { zone } = receiver
    const entry = zone[nameOf(receiver)]
    zone[nameOf(receiver)] = typeof entry === 'object' ? { ...entry, secure: false } : { A: ['192.0.2.1'] }
    await using flow = await startFlow(receiver)
    expect((await flow.outcome(TO)).recipient.status).toBe('sent')
  })

  test('with TASSIS_DANE=off', async () => {
    await using receiver = await startDaneReceiver()
    receiver.secure(wrong(receiver))
    await using flow = await startFlow(receiver, { TASSIS_DANE: 'off' })
    expect((await flow.outcome(TO)).recipient.status).toBe('sent')
  })

  test('of an untrusted DNS server: its answers are never asked to be authentic', async () => {
    await using receiver = await startDaneReceiver()
    receiver.secure(wrong(receiver))
    await using flow = await startTlsFlow(receiver)
    expect((await flow.outcome(TO)).recipient.status).toBe('sent')
    expect(flow.dns.queries.filter(({ type }) => type === 'TLSA')).toEqual([])
  })
})
