/**
 * @module The certificate of the SMTP listener: the operator's files, reloaded when they change, or a self-signed one
 * in the data directory. If the files become unusable while the service runs, the previous certificate stays in use.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { chmodSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import type { Clock } from '#platform/clock.ts'
import { type Config, ConfigError } from '#platform/config.ts'
import { randomBytes } from '#platform/ids.ts'
import type { Log } from '#platform/log.ts'
import { days, seconds } from '#platform/units.ts'
import type { Certificate } from './listener-protocol.ts'

export type CertificateConfig = Pick<Config, 'dataDir' | 'tlsCertFile' | 'tlsKeyFile'>

export interface CertificateOptions {
  readonly config: CertificateConfig
  readonly hostname: string
  readonly clock: Pick<Clock, 'now' | 'after'>
  readonly log: Pick<Log, 'info' | 'warn'>
  /** Called with each new certificate. */
  readonly onChange: (certificate: Certificate) => void
}

export interface WatchedCertificate {
  readonly current: Certificate
  close(): void
}

/** Contains the key; readable by the owner only. */
const OWN_FILE = 'inbound-tls.pem'
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
  if (tlsCertFile === '') {
    const current = await openOwnCertificate(options)
    return { current, close() {} }
  }
  return watch(tlsCertFile, tlsKeyFile, options)
}

function watch(certFile: string, keyFile: string, options: CertificateOptions): WatchedCertificate {
  const { clock, log, onChange } = options
  const first = readCertificate(certFile, keyFile)
  if (first.kind === 'unusable') throw new ConfigError(first.reason)
  let current = first.certificate
  warnAboutProblems(current, options)
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
    log.info({ validTo: new X509Certificate(current.cert).validTo }, 'new TLS certificate in use')
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
function warnAboutProblems({ cert }: Certificate, { hostname, clock, log }: CertificateOptions): void {
  const certificate = new X509Certificate(cert)
  const { validTo } = certificate
  if (certificate.checkHost(hostname) === undefined)
    log.warn(
      { hostname, names: certificate.subjectAltName },
      'TLS certificate of the SMTP listener does not match TASSIS_HOSTNAME; senders that verify it do not deliver',
    )
  if (Date.parse(validTo) <= clock.now())
    log.warn({ validTo }, 'TLS certificate of the SMTP listener has expired; senders that verify it do not deliver')
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
  const leaf = tryOrUndefined(() => new X509Certificate(cert))
  if (!leaf) return unusable(`TASSIS_TLS_CERT_FILE is "${certFile}", which holds no certificate in PEM form.`)
  const privateKey = tryOrUndefined(() => createPrivateKey(key))
  if (!privateKey)
    return unusable(`TASSIS_TLS_KEY_FILE is "${keyFile}", which holds no private key in PEM form without a passphrase.`)
  if (!leaf.checkPrivateKey(privateKey))
    return unusable(`The key in "${keyFile}" does not match the first certificate in "${certFile}".`)
  // Cases that the checks above miss and TLS rejects, such as a truncated chain.
  if (!tryOrUndefined(() => createSecureContext({ cert, key })))
    return unusable(`The certificates in "${certFile}" cannot be used for TLS.`)
  return { kind: 'ok', certificate: { cert, key } }
}

const readText = (path: string): string | undefined => tryOrUndefined(() => readFileSync(path, 'utf8'))

function tryOrUndefined<T>(run: () => T): T | undefined {
  try {
    return run()
  } catch {
    return undefined
  }
}

/**
 * Our own certificate, from its file or newly created. Most mail servers have a self-signed one, and few senders check
 * it (RFC 7435).
 */
async function openOwnCertificate({ config, hostname, clock, log }: CertificateOptions): Promise<Certificate> {
  const path = join(config.dataDir, OWN_FILE)
  const stored = readCertificate(path, path)
  if (stored.kind === 'ok' && isUsableFor(stored.certificate, hostname, clock)) return stored.certificate
  const created = await createSelfSigned(hostname, clock.now())
  const temporary = `${path}.tmp`
  writeFileSync(temporary, `${created.key.trim()}\n${created.cert.trim()}\n`, { mode: 0o600 })
  // The mode above has no effect on an existing file.
  chmodSync(temporary, 0o600)
  renameSync(temporary, path)
  log.info({ file: path }, 'self-signed TLS certificate created for the SMTP listener')
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

/** ECDSA P-256, valid since yesterday, because clocks differ. */
async function createSelfSigned(hostname: string, now: number): Promise<Certificate> {
  // Loaded on demand, because loading takes a tenth of a second; reflect-metadata must be loaded first.
  await import('reflect-metadata')
  const { SubjectAlternativeNameExtension, X509CertificateGenerator } = await import('@peculiar/x509')
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const serial = randomBytes(16)
  // A serial number must be positive (RFC 5280 §4.1.2.2).
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: serial.toHex(),
    name: `CN=${hostname}`,
    notBefore: new Date(now - days(1)),
    notAfter: new Date(now + days(OWN_DAYS)),
    signingAlgorithm: algorithm,
    keys,
    extensions: [new SubjectAlternativeNameExtension([{ type: 'dns', value: hostname }])],
  })
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey))
  const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
  return { cert: certificate.toString('pem'), key: key.export({ type: 'pkcs8', format: 'pem' }).toString() }
}
