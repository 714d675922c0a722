/** @module Checks of the dates and names of our TLS certificates: of our listeners, and of the public URL. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { connect } from 'node:tls'
import { isoTime } from '#platform/http/envelope.ts'
import type { Config } from '#platform/settings/config.ts'
import { days, seconds } from '#platform/units.ts'
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import { listServiceHosts } from '../../certificates/hosts.ts'
import { type CertificateState, certificateStates, findMismatch, USE_NAMES } from '../../certificates/states.ts'
import { type DoctorContext, findNetworkObstacle, mayConnect } from '../context.ts'
import { failure, type NewFinding, ok, skipped, warning } from '../finding.ts'

const FIX =
  'Mend the cause (docs/certificates.md lists the reasons), then run `tassis certificates retry`; `tassis certificates list` shows the result.'
/** Accounts have any number of tracking hosts; those that are well are not listed. */
const MAX_TRACKING_FINDINGS = 20

/** One finding per host of the service; of tracking hosts, one per host with a problem. */
function checkOrderedCertificates({ config, db, clock }: DoctorContext): NewFinding[] {
  const now = clock.now()
  const states = new Map(
    certificateStates({ config, db })
      .filter(({ source }) => source === 'acme')
      .map((state) => [state.host, state] as const),
  )
  const all = [...states.values()]
  const own = all.filter(({ use }) => use !== 'tracking').map((state) => describe(state, now))
  const tracking = all.filter(({ use }) => use === 'tracking').map((state) => describe(state, now))
  const bad = tracking.filter(({ status }) => status !== 'ok' && status !== 'skipped')
  return [...own, ...bad.slice(0, MAX_TRACKING_FINDINGS)]
}

function describe({ host, use, notAfter, warnAt, lastError }: CertificateState, now: number): NewFinding {
  // A tracking host may have left us without a word.
  const broken = use === 'tracking' ? warning : failure
  const cause = lastError === undefined ? '' : `: ${lastError.replace(/\.$/, '')}`
  if (notAfter === undefined || warnAt === undefined)
    return lastError === undefined
      ? skipped(`The first certificate for ${host} is being ordered.`, host)
      : broken(`There is no certificate for ${host}${cause}.`, FIX, host)
  const end = isoTime(notAfter).slice(0, 10)
  if (notAfter <= now) return broken(`The certificate for ${host} expired on ${end}${cause}.`, FIX, host)
  return warnAt <= now
    ? warning(`The certificate for ${host} expires on ${end} and could not be renewed${cause}.`, FIX, host)
    : ok(`The certificate for ${host} is valid until ${end}.`, host)
}

/** Certificates are usually renewed 30 days before they end. */
const MIN_LEFT_MS = days(14)
const TLS_TIMEOUT_MS = seconds(5)

export async function checkCertificates(context: DoctorContext): Promise<NewFinding[]> {
  return [
    ...checkListenerCertificates(context),
    await checkPublicCertificate(context),
    ...checkOrderedCertificates(context),
  ]
}

/** What clients of our listeners see, unless the service orders it. */
function checkListenerCertificates({ config, clock }: DoctorContext): NewFinding[] {
  const listeners = listServiceHosts(config).flatMap(({ host, uses }) =>
    uses.flatMap((use) => (use === 'tracking' ? [] : [{ host, use }])),
  )
  if (listeners.length === 0)
    return [skipped('Not checked: neither SMTP nor HTTPS has a listener, so the service shows no certificate.', 'SMTP')]
  const { tlsCertFile, acmeTermsAgreed } = config
  if (tlsCertFile === '') return acmeTermsAgreed ? [] : listeners.map(({ use }) => describeSelfSigned(config, use))
  let certificate: X509Certificate
  try {
    certificate = new X509Certificate(readFileSync(tlsCertFile))
  } catch {
    return [
      failure(
        `TASSIS_TLS_CERT_FILE is "${tlsCertFile}", which holds no readable certificate.`,
        'Give the path of a PEM file that the user of the service may read.',
        'TASSIS_TLS_CERT_FILE',
      ),
    ]
  }
  return listeners.map(({ host, use }) => {
    const name = USE_NAMES[use]
    const what = `The certificate of ${name} in ${tlsCertFile}`
    const dated = describeEnd(what, Date.parse(certificate.validTo), clock.now(), name)
    const mismatch = dated.status === 'ok' ? findMismatch(certificate, host, use) : undefined
    return mismatch ? warning(mismatch.problem, mismatch.fix, name) : dated
  })
}

function describeSelfSigned(config: Config, use: 'smtp' | 'api'): NewFinding {
  const isForMailServers = use === 'smtp' && config.submissionAddr === '' && config.submissionTlsAddr === ''
  if (isForMailServers) return ok('SMTP uses a self-signed certificate, which senders of mail accept.', 'SMTP')
  return warning(
    `${use === 'smtp' ? 'SMTP submission' : 'HTTPS'} uses a self-signed certificate, which programs reject unless they trust it.`,
    'Set TASSIS_ACME_TERMS_AGREED=true to get one (docs/certificates.md), or TASSIS_TLS_CERT_FILE and TASSIS_TLS_KEY_FILE.',
    USE_NAMES[use],
  )
}

function describeEnd(what: string, endsAt: number, now: number, subject: string): NewFinding {
  const end = isoTime(endsAt).slice(0, 10)
  const fix =
    'Renew it, and find out why that did not happen by itself, with the program that orders it: `tassis certificates list`, `certbot renew --dry-run`, or the log of the proxy.'
  if (endsAt <= now) return failure(`${what} expired on ${end}.`, fix, subject)
  return endsAt - now < MIN_LEFT_MS
    ? warning(`${what} expires on ${end}.`, fix, subject)
    : ok(`${what} is valid until ${end}.`, subject)
}

/** Asks whatever answers at the public URL, usually a reverse proxy. */
async function checkPublicCertificate(context: DoctorContext): Promise<NewFinding> {
  const { config, clock, resolver } = context
  const url = new URL(config.publicUrl)
  const subject = 'TASSIS_PUBLIC_URL'
  const obstacle = url.protocol === 'https:' ? findNetworkObstacle(config) : 'Not checked: the public URL is not https.'
  if (obstacle !== undefined) return skipped(obstacle, subject)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const found = isIP(host) === 0 ? await resolveHostAddresses(resolver, host, { ipv6: false }) : undefined
  if (found?.kind === 'nxdomain' || found?.kind === 'nodata')
    return failure(
      `${host} of the public URL has no address in DNS, so no link in mail works.`,
      `Publish an A record of ${host} with the address of this machine or its proxy.`,
      subject,
    )
  const ip = found ? (found.kind === 'ok' ? found.addresses[0] : undefined) : host
  if (ip === undefined) return skipped(`The address of ${host} could not be looked up.`, subject)
  if (!mayConnect(config, ip)) return skipped('Not checked in a test.', subject)
  const shown = await readServedCertificate(context, { ip, port: Number(url.port) || 443, host })
  if (typeof shown === 'string')
    // Some networks do not lead connections to their own public address back in.
    return skipped(`${url.origin} cannot be reached from here (${shown}); try it from elsewhere.`, subject)
  const dated = describeEnd(`The certificate of ${host}`, Date.parse(shown.validTo), clock.now(), subject)
  if (dated.status !== 'ok' || isIP(host) !== 0 || shown.checkHost(host) !== undefined) return dated
  return failure(
    `The certificate at ${url.origin} is not for ${host}, so browsers and mail programs refuse the links in mail.`,
    `Let the proxy use a certificate for ${host}.`,
    subject,
  )
}

/** The certificate that a server shows, or why there is none. Does not verify it: that is what is checked. */
function readServedCertificate(
  { clock, signal }: DoctorContext,
  { ip, port, host }: { readonly ip: string; readonly port: number; readonly host: string },
): Promise<X509Certificate | string> {
  return new Promise((resolve) => {
    const socket = connect({
      host: ip,
      port,
      rejectUnauthorized: false,
      // RFC 6066 §3 forbids addresses as server names.
      ...(isIP(host) === 0 && { servername: host }),
    })
    const finish = (result: X509Certificate | string): void => {
      timer.cancel()
      signal.removeEventListener('abort', abort)
      socket.destroy()
      resolve(result)
    }
    const abort = () => finish('no answer')
    const timer = clock.after(TLS_TIMEOUT_MS, abort)
    signal.addEventListener('abort', abort)
    socket.on('error', ({ code }: NodeJS.ErrnoException) => finish(code ?? 'no TLS'))
    socket.on('secureConnect', () => {
      const { raw } = socket.getPeerCertificate()
      finish(raw ? new X509Certificate(raw) : 'no certificate')
    })
  })
}
