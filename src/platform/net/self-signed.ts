/** @module Creates certificates that we sign ourselves, and requests for certificates of others. ECDSA P-256. */
import { createPrivateKey } from 'node:crypto'
import { randomBytes } from '#platform/ids.ts'
import { days } from '#platform/units.ts'

/** Certificate or chain, and its key, in PEM. */
export interface KeyedCertificate {
  readonly cert: string
  readonly key: string
}

export interface SelfSignedOptions {
  readonly hostname: string
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly validDays: number
  /** A critical extension: its object identifier and DER value. */
  readonly extension?: { readonly id: string; readonly value: Uint8Array }
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }

/** Loaded on demand, because loading takes a tenth of a second; reflect-metadata must be loaded first. */
async function loadX509(): Promise<typeof import('@peculiar/x509')> {
  await import('reflect-metadata')
  return await import('@peculiar/x509')
}

/** A self-signed certificate for one host name, valid since yesterday, because clocks differ. */
export async function createSelfSigned(options: SelfSignedOptions): Promise<KeyedCertificate> {
  const { hostname, now, validDays, extension } = options
  const { Extension, SubjectAlternativeNameExtension, X509CertificateGenerator } = await loadX509()
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const serial = randomBytes(16)
  // A serial number must be positive (RFC 5280 §4.1.2.2).
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: serial.toHex(),
    // RFC 5280 limits a common name to 64 characters; only the alternative name counts.
    name: hostname.length > 64 ? '' : `CN=${hostname}`,
    notBefore: new Date(now - days(1)),
    notAfter: new Date(now + days(validDays)),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new SubjectAlternativeNameExtension([{ type: 'dns', value: hostname }]),
      ...(extension ? [new Extension(extension.id, true, new Uint8Array(extension.value))] : []),
    ],
  })
  return { cert: certificate.toString('pem'), key: await exportKey(keys.privateKey) }
}

/** A request for a certificate of one host name (PKCS #10), in DER, with a new key. */
export async function createCertificateRequest(
  hostname: string,
): Promise<{ readonly csr: Uint8Array; readonly key: string }> {
  const { Pkcs10CertificateRequestGenerator, SubjectAlternativeNameExtension } = await loadX509()
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const request = await Pkcs10CertificateRequestGenerator.create({
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [new SubjectAlternativeNameExtension([{ type: 'dns', value: hostname }])],
  })
  return { csr: new Uint8Array(request.rawData), key: await exportKey(keys.privateKey) }
}

/** Our own writing of the key, since PEM of WebCrypto differs between runtimes. */
async function exportKey(privateKey: CryptoKey): Promise<string> {
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey('pkcs8', privateKey))
  const key = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
  return key.export({ type: 'pkcs8', format: 'pem' }).toString()
}
