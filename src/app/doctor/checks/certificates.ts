/** @module Checks of the dates and names of our TLS certificates: of our listeners, and of the public URL. */
import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { connect } from 'node:tls'
import { type CertificateState, certificateStates, USE_NAMES } from '#features/setup/certificates/states.ts'
import { isoTime } from '#platform/http/envelope.ts'
import type { Config } from '#platform/settings/config.ts'
import { days } from '#platform/units.ts'
import { resolveHostAddresses } from '#protocols/dns/mail-route.ts'
import {
  type DoctorContext,
  failure,
  findConnectProblem,
  findNetworkObstacle,
  isBad,
  mayConnect,
  type NewFinding,
  ok,
  skipped,
  warning,
} from '../context.ts'

const FIX =
  'Mend the cause (docs/certificates.md lists the reasons), then run `tassis certificates retry`; `tassis certificates list` shows the result.'
/** Accounts have any number of tracking hosts. */
const MAX_TRACKING_FINDINGS = 20

function describeOrdered({ host, use, notAfter, warnAt, lastError }: CertificateState, now: number): NewFinding {
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

/** What clients of our listeners see, and of the public URL; of tracking hosts, only those with a problem. */
export async function checkCertificates(context: DoctorContext): Promise<NewFinding[]> {
  const { config, db, clock } = context
  const now = clock.now()
  const states = Map.groupBy(certificateStates({ config, db }), ({ use }) => use === 'tracking')
  const own = (states.get(false) ?? []).map((state) => describe(config, state, now))
  const tracking = (states.get(true) ?? []).map((state) => describe(config, state, now))
  const seen = new Map(own.map((finding) => [finding.subject, finding]))
  return [
    ...(seen.size > 0
      ? seen.values()
      : [skipped('Not checked: neither SMTP nor HTTPS has a listener, so the service shows no certificate.', 'SMTP')]),
    await checkPublicCertificate(context),
    ...tracking.filter(isBad).slice(0, MAX_TRACKING_FINDINGS),
  ]
}

function describe(config: Config, state: CertificateState, now: number): NewFinding {
  const { use, source, notAfter = 0, mismatch } = state
  if (source === 'acme') return describeOrdered(state, now)
  const name = USE_NAMES[use]
  if (source === 'file') {
    const dated = describeEnd(`The certificate of ${name} in ${config.tlsCertFile}`, notAfter, now, name)
    return dated.status === 'ok' && mismatch ? warning(mismatch.problem, mismatch.fix, name) : dated
  }
  if (config.tlsCertFile === '') return describeSelfSigned(config, use)
  return failure(
    `TASSIS_TLS_CERT_FILE is "${config.tlsCertFile}", which holds no readable certificate.`,
    'Give the path of a PEM file that the user of the service may read.',
    'TASSIS_TLS_CERT_FILE',
  )
}

function describeSelfSigned(config: Config, use: CertificateState['use']): NewFinding {
  const isForMailServers = use === 'smtp' && config.submissionAddr === '' && config.submissionTlsAddr === ''
  if (isForMailServers) return ok('SMTP uses a self-signed certificate, which senders of mail accept.', 'SMTP')
  return warning(
    `${use === 'smtp' ? 'SMTP submission' : 'HTTPS'} uses a self-signed certificate, which programs reject unless they trust it.`,
    `${
      config.acmeTermsAgreed
        ? `Set ${use === 'smtp' ? 'TASSIS_HOSTNAME' : 'TASSIS_PUBLIC_URL'} to a full host name, for which a certificate authority issues one`
        : 'Set TASSIS_ACME_TERMS_AGREED=true to get one (docs/certificates.md)'
    }, or TASSIS_TLS_CERT_FILE and TASSIS_TLS_KEY_FILE.`,
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
async function readServedCertificate(
  context: DoctorContext,
  { ip, port, host }: { readonly ip: string; readonly port: number; readonly host: string },
): Promise<X509Certificate | string> {
  // RFC 6066 §3 forbids addresses as server names.
  const servername = isIP(host) === 0 ? { servername: host } : {}
  const socket = connect({ host: ip, port, rejectUnauthorized: false, ...servername })
  try {
    const problem = await findConnectProblem(context, socket, 'secureConnect')
    const { raw } = problem === undefined ? socket.getPeerCertificate() : {}
    return raw ? new X509Certificate(raw) : (problem ?? 'no certificate')
  } finally {
    socket.destroy()
  }
}
