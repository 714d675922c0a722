/**
 * @module A recipient domain with mail hosts and a server of its MTA-STS policy, all on loopback addresses and with
 * certificates of one authority, for tests of transport security.
 */
import type { SMTPServerOptions } from 'smtp-server'
import { type CertificateAuthority, createCertificateAuthority, type TestCertificate } from './certificates.ts'
import type { Zone } from './dns-server.ts'
import { type HttpsReceiver, startHttpsReceiver } from './https-receiver.ts'
import { type MailFlow, type MailFlowOptions, startMailFlow } from './mail-flow.ts'
import { ManualClock } from './manual-clock.ts'
import { type Sink, startSink } from './sink.ts'

export const RECIPIENT_DOMAIN = 'receiver.test'
export const MX = `mx.${RECIPIENT_DOMAIN}`
export const TLS_START = Date.UTC(2026, 2, 15, 12)

export interface TlsReceiver extends AsyncDisposable {
  readonly ca: CertificateAuthority
  readonly sink: Sink
  readonly policyHost: HttpsReceiver
  readonly zone: Zone
  /** Settings with which the service reaches all of them. */
  readonly settings: Readonly<Record<string, string>>
  /** Serves this policy from now on; `id` is that of the DNS record. */
  publish(policy: string, id?: string): void
}

export interface TlsReceiverOptions {
  /** Default: a valid one for the mail host. */
  readonly certificate?: (ca: CertificateAuthority) => TestCertificate
  /** False: the mail host does not offer STARTTLS. */
  readonly offersTls?: boolean
  /** Names of the certificate of the policy server. */
  readonly policyNames?: readonly string[]
  /** The policy that is published from the beginning. */
  readonly policy?: string
}

export const EXPIRED: TlsReceiverOptions = { certificate: (ca) => ca.issue([MX], { notAfter: new Date('2021-01-01') }) }
export const OTHER_NAME: TlsReceiverOptions = { certificate: (ca) => ca.issue(['mx.other.test']) }

/** The text of a policy. */
export const policyText = (mode: string, mx = MX, maxAge = 86_400): string =>
  `version: STSv1\r\nmode: ${mode}\r\nmx: ${mx}\r\nmax_age: ${maxAge}\r\n`

export async function startTlsReceiver(options: TlsReceiverOptions = {}): Promise<TlsReceiver> {
  const ca = createCertificateAuthority()
  const certificate = (options.certificate ?? ((authority) => authority.issue([MX])))(ca)
  const tls: SMTPServerOptions =
    options.offersTls === false ? {} : { ...certificate, disabledCommands: ['AUTH'], secure: false }
  const sink = await startSink(tls)
  const policyHost = await startHttpsReceiver({ names: options.policyNames ?? [`mta-sts.${RECIPIENT_DOMAIN}`], ca })
  const zone: Zone = {
    [RECIPIENT_DOMAIN]: { MX: [{ preference: 10, exchange: MX }] },
    [MX]: { A: ['127.0.0.1'] },
    [`mta-sts.${RECIPIENT_DOMAIN}`]: { A: ['127.0.0.1'] },
  }
  const publish: TlsReceiver['publish'] = (policy, id = '1') => {
    zone[`_mta-sts.${RECIPIENT_DOMAIN}`] = { TXT: [`v=STSv1; id=${id}`], ttl: 0 }
    policyHost.answer({ headers: { 'content-type': 'text/plain' }, body: policy })
  }
  if (options.policy !== undefined) publish(options.policy)
  return {
    ca,
    sink,
    policyHost,
    zone,
    settings: { TASSIS_SMTP_PORT: String(sink.port), TASSIS_EXTRA_CA_FILE: policyHost.caFile },
    publish,
    async [Symbol.asyncDispose]() {
      await sink[Symbol.asyncDispose]()
      await policyHost.close()
    },
  }
}

/** A mail flow that reaches the receiver, on a clock that stands, so that no fetch of a policy takes too long. */
export async function startTlsFlow(
  { zone, settings, policyHost }: TlsReceiver,
  { settings: more, ...options }: Omit<MailFlowOptions, 'clock'> = {},
): Promise<MailFlow & { readonly clock: ManualClock }> {
  const clock = new ManualClock(TLS_START)
  const reached = { zone, policyPort: policyHost.port, settings: { ...settings, ...more } }
  return { ...(await startMailFlow({ ...reached, ...options, clock })), clock }
}
