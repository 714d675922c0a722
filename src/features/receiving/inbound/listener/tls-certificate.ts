/**
 * @module The certificate of a listener: the operator's files, or that of a certificate authority, reloaded when they
 * change, else a self-signed one in the data directory. If the files become unusable while the service runs, the
 * previous certificate stays in use.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { certificateFile } from '#features/setup/certificates/store.ts'
import { normaliseHost } from '#features/setup/domains/tracking-domain.ts'
import { replaceFileSync } from '#platform/disk/replace-file.ts'
import { attempt } from '#platform/errors.ts'
import type { Log } from '#platform/log/log.ts'
import { createSelfSigned } from '#platform/net/self-signed.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import type { Clock } from '#platform/time/clock.ts'
import { days, seconds } from '#platform/units.ts'
import type { Certificate } from './protocol.ts'

export type CertificateConfig = Pick<Config, 'dataDir' | 'tlsCertFile' | 'tlsKeyFile'> &
  Partial<Pick<Config, 'acmeTermsAgreed'>>

export interface CertificateOptions {
  readonly config: CertificateConfig
  readonly hostname: string
  /** Default: SMTP, whose certificate is for TASSIS_HOSTNAME. */
  readonly listener?: 'SMTP' | 'HTTPS'
  readonly clock: Pick<Clock, 'now' | 'after'>
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly onChange: (certificate: Certificate) => void
}

export interface WatchedCertificate {
  readonly current: Certificate
  close(): void
}

/** Contain the key; readable by the owner only. */
const OWN_FILES = { SMTP: 'inbound-tls.pem', HTTPS: 'https-tls.pem' }
const OWN_DAYS = 3650
/** A certificate with less time left is replaced at start. */
const OWN_MIN_DAYS_LEFT = 365
const CHECK_INTERVAL_MS = seconds(30)

/**
 * Reads the operator's certificate and checks its files every half minute; without one, reads or creates our own.
 * Throws `ConfigError` when only one of the two files is set, or they are unusable.
 */
export async function openCertificate(options: CertificateOptions): Promise<WatchedCertificate> {
  const { tlsCertFile, tlsKeyFile } = options.config
  if ((tlsCertFile === '') !== (tlsKeyFile === '')) {
    const [provided, missing] =
      tlsKeyFile === ''
        ? ['TASSIS_TLS_CERT_FILE', 'TASSIS_TLS_KEY_FILE']
        : ['TASSIS_TLS_KEY_FILE', 'TASSIS_TLS_CERT_FILE']
    throw new ConfigError(`${provided} is set but ${missing} is not; set both, or none for a self-signed certificate.`)
  }
  if (tlsCertFile !== '') return watch(tlsCertFile, tlsKeyFile, options)
  const current = await openOwnCertificate(options)
  if (!options.config.acmeTermsAgreed) return { current, close() {} }
  const file = certificateFile(options.config.dataDir, normaliseHost(options.hostname))
  return watch(file, file, options, current)
}

/** @param fallback in use until the files have a certificate; default: they must have one now */
function watch(
  certFile: string,
  keyFile: string,
  options: CertificateOptions,
  fallback?: Certificate,
): WatchedCertificate {
  const { clock, log, onChange, listener = 'SMTP' } = options
  const first = readCertificate(certFile, keyFile)
  if (first.kind === 'unusable' && !fallback) throw new ConfigError(first.reason)
  let current = first.kind === 'ok' ? first.certificate : (fallback as Certificate)
  if (first.kind === 'ok') warnAboutProblems(current, options)
  let lastState = fingerprintFiles(certFile, keyFile)

  const checkFiles = () => {
    const state = fingerprintFiles(certFile, keyFile)
    if (state === lastState) return
    // Stored even when the files are unusable, so that each state of the files is logged once.
    lastState = state
    const read = readCertificate(certFile, keyFile)
    if (read.kind === 'unusable') {
      log.warn({ reason: read.reason }, 'new TLS certificate unusable; the previous one stays in use')
      return
    }
    if (read.certificate.cert === current.cert && read.certificate.key === current.key) return
    current = read.certificate
    log.info({ listener, validTo: new X509Certificate(current.cert).validTo }, 'new TLS certificate in use')
    warnAboutProblems(current, options)
    onChange(current)
  }

  let timer = clock.after(CHECK_INTERVAL_MS, function repeat() {
    checkFiles()
    timer = clock.after(CHECK_INTERVAL_MS, repeat)
  })
  return {
    get current() {
      return current
    },
    close: () => timer.cancel(),
  }
}

/** Warns about a certificate that senders with verification reject; all others accept it, so it is used. */
function warnAboutProblems(
  { cert }: Certificate,
  { hostname, listener = 'SMTP', clock, log }: CertificateOptions,
): void {
  const [setting, effect] =
    listener === 'SMTP'
      ? ['TASSIS_HOSTNAME', 'senders that verify it do not deliver']
      : ['TASSIS_PUBLIC_URL', 'clients refuse it']
  const certificate = new X509Certificate(cert)
  const { validTo } = certificate
  if (certificate.checkHost(hostname) === undefined)
    log.warn(
      { hostname, names: certificate.subjectAltName },
      `TLS certificate of the ${listener} listener does not match ${setting}; ${effect}`,
    )
  if (Date.parse(validTo) <= clock.now())
    log.warn({ validTo }, `TLS certificate of the ${listener} listener has expired; ${effect}`)
}

/** Changes when either file changes. Follows links, because certificates are often renewed by replacing a link. */
const fingerprintFiles = (...files: readonly string[]): string =>
  files
    .map((file) => {
      const stat = statSync(file, { throwIfNoEntry: false })
      return stat ? `${stat.ino} ${stat.size} ${stat.mtimeMs}` : 'none'
    })
    .join(' | ')

type ReadCertificate =
  | { readonly kind: 'ok'; readonly certificate: Certificate }
  | { readonly kind: 'unusable'; readonly reason: string }

function readCertificate(certFile: string, keyFile: string): ReadCertificate {
  const unusable = (reason: string): ReadCertificate => ({ kind: 'unusable', reason })
  const cert = readText(certFile)
  if (cert === undefined)
    return unusable(
      `TASSIS_TLS_CERT_FILE is "${certFile}", which cannot be read; give the path of a readable PEM file.`,
    )
  const key = readText(keyFile)
  if (key === undefined)
    return unusable(`TASSIS_TLS_KEY_FILE is "${keyFile}", which cannot be read; give the path of a readable PEM file.`)
  const leaf = attempt(() => new X509Certificate(cert))
  if (!leaf) return unusable(`TASSIS_TLS_CERT_FILE is "${certFile}", which holds no certificate in PEM form.`)
  const privateKey = attempt(() => createPrivateKey(key))
  if (!privateKey)
    return unusable(`TASSIS_TLS_KEY_FILE is "${keyFile}", which holds no private key in PEM form without a passphrase.`)
  if (!leaf.checkPrivateKey(privateKey))
    return unusable(`The key in "${keyFile}" does not match the first certificate in "${certFile}".`)
  // Cases that the checks above miss and TLS rejects, such as a truncated chain.
  if (!attempt(() => createSecureContext({ cert, key })))
    return unusable(`The certificates in "${certFile}" cannot be used for TLS.`)
  return { kind: 'ok', certificate: { cert, key } }
}

const readText = (path: string): string | undefined => attempt(() => readFileSync(path, 'utf8'))

/** Our own certificate. Most mail servers have a self-signed one, and few senders check it (RFC 7435). */
async function openOwnCertificate(options: CertificateOptions): Promise<Certificate> {
  const { config, hostname, listener = 'SMTP', clock, log } = options
  const path = join(config.dataDir, OWN_FILES[listener])
  const stored = readCertificate(path, path)
  if (stored.kind === 'ok' && isUsableFor(stored.certificate, hostname, clock)) return stored.certificate
  const created = await createSelfSigned({ hostname, now: clock.now(), validDays: OWN_DAYS })
  replaceFileSync(path, `${created.key.trim()}\n${created.cert.trim()}\n`)
  log.info({ file: path }, `self-signed TLS certificate created for the ${listener} listener`)
  const reread = readCertificate(path, path)
  if (reread.kind === 'unusable') throw new Error(`the created certificate is unusable: ${reread.reason}`)
  return reread.certificate
}

function isUsableFor({ cert }: Certificate, hostname: string, clock: Pick<Clock, 'now'>): boolean {
  const certificate = new X509Certificate(cert)
  return (
    certificate.checkHost(hostname) !== undefined &&
    Date.parse(certificate.validTo) - clock.now() > days(OWN_MIN_DAYS_LEFT)
  )
}
