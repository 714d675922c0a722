/**
 * @module Files of certificates in the data directory: `certificates/HOST.pem` with key and chain, the key of the
 * account, and how orders went. They are readable by the owner only, replaced as a whole, and can be made again: none
 * of them is needed in a backup.
 */
import { X509Certificate } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createSecureContext } from 'node:tls'
import type { Replica } from '#platform/db/replica.ts'
import { replaceFileSync } from '#platform/disk/replace-file.ts'
import { attempt } from '#platform/errors.ts'
import type { KeyedCertificate } from '#platform/net/self-signed.ts'
import { days, hours, type Millis } from '#platform/units.ts'
import { type AccountKey, generateAccountKey, parseAccountKey } from '#protocols/acme/session.ts'

export interface StoredCertificate extends KeyedCertificate {
  readonly notBefore: Millis
  readonly notAfter: Millis
}

/** How the orders for a host, or all orders, went. */
export interface OrderState {
  /** In a row. */
  readonly failures: number
  /** No order is made before this time. */
  readonly nextAttemptAt: Millis
  readonly lastError?: string
  readonly lastErrorAt?: Millis
}

export interface OrdersState {
  /** Failures that are not due to one host: the certificate authority could not be used. */
  server: OrderState
  hosts: Record<string, OrderState>
}

export const NO_FAILURES: OrderState = { failures: 0, nextAttemptAt: 0 }

/** The clock of a certificate authority may be ahead of ours; most date a certificate back by an hour. */
const MAX_CLOCK_DIFFERENCE_MS = hours(1)

const folderOf = (dataDir: string): string => join(dataDir, 'certificates')

/** File with the certificate of a host. @param host in A-labels and lower case */
export const certificateFile = (dataDir: string, host: string): string => join(folderOf(dataDir), `${host}.pem`)

/** Undefined when there is no certificate, or it cannot be used. */
export function readCertificate(dataDir: string, host: string): StoredCertificate | undefined {
  const pem = readText(certificateFile(dataDir, host))
  // Our own writing: the key comes first.
  const split = pem?.indexOf('-----BEGIN CERTIFICATE-----') ?? -1
  if (pem === undefined || split === -1) return undefined
  return attempt(() => toStored({ key: pem.slice(0, split), cert: pem.slice(split) }))
}

export function writeCertificate(
  dataDir: string,
  host: string,
  { key, cert }: KeyedCertificate,
  replica?: Replica,
): void {
  replaceFile(folderOf(dataDir), `${host}.pem`, `${key.trim()}\n${cert.trim()}\n`, replica)
}

export function removeCertificate(dataDir: string, host: string, replica?: Replica): void {
  rmSync(certificateFile(dataDir, host), { force: true })
  void replica?.removeFiles([certificateFile(dataDir, host)])
}

/** Reads the key of the account, or creates one; the account then is another one. */
export function openAccountKey(dataDir: string, replica?: Replica): AccountKey {
  const stored = readText(join(folderOf(dataDir), 'account.key'))
  // Instead of a damaged key, a new account costs nothing.
  const known = stored === undefined ? undefined : attempt(() => parseAccountKey(stored))
  if (known) return known
  const key = generateAccountKey()
  replaceFile(folderOf(dataDir), 'account.key', key.pem, replica)
  return key
}

/** What is missing or damaged counts as no failures: an order is then made too early at worst. */
export const readOrdersState = (dataDir: string): OrdersState => ({
  server: NO_FAILURES,
  hosts: {},
  ...attempt(() => JSON.parse(readFileSync(join(folderOf(dataDir), 'orders.json'), 'utf8')) as Partial<OrdersState>),
})

export const writeOrdersState = (dataDir: string, state: OrdersState, replica?: Replica): void =>
  replaceFile(folderOf(dataDir), 'orders.json', `${JSON.stringify(state, null, 2)}\n`, replica)

/** Makes failed orders due now. A service that runs has to be told. */
export function resetOrderDelays(dataDir: string, replica?: Replica): void {
  const { server, hosts } = readOrdersState(dataDir)
  const resetHosts = Object.entries(hosts).map(([host, state]) => [host, { ...state, nextAttemptAt: 0 }] as const)
  const state = { server: { ...server, nextAttemptAt: 0 }, hosts: Object.fromEntries(resetHosts) }
  writeOrdersState(dataDir, state, replica)
}

/** A certificate that is not renewed by then is worth a warning. */
const EXPIRY_WARNING_MS = days(14)

/** How long before its end a certificate that cannot be renewed is a problem; shorter for those of a few days. */
export const expiryWarningMs = ({ notBefore, notAfter }: { notBefore: Millis; notAfter: Millis }): number =>
  Math.min(EXPIRY_WARNING_MS, (notAfter - notBefore) / 4)

/** Why a certificate for `host` cannot be used, as a phrase; undefined when it can. */
export function findCertificateProblem(issued: KeyedCertificate, host: string, now: Millis): string | undefined {
  let leaf: X509Certificate
  try {
    leaf = new X509Certificate(issued.cert)
    // Fails for a broken chain, and for the key of another certificate.
    createSecureContext(issued)
    toStored(issued)
  } catch {
    return 'it is not a certificate for our key'
  }
  if (leaf.subjectAltName?.toLowerCase() !== `dns:${host}`) return `it is for ${leaf.subjectAltName ?? 'no name'}`
  if (Date.parse(leaf.validFrom) > now + MAX_CLOCK_DIFFERENCE_MS) return `it is valid only from ${leaf.validFrom}`
  if (Date.parse(leaf.validTo) <= now) return `it expired at ${leaf.validTo}`
  return undefined
}

function toStored({ key, cert }: KeyedCertificate): StoredCertificate {
  const leaf = new X509Certificate(cert)
  const [notBefore, notAfter] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)]
  if (!(notBefore < notAfter)) throw new TypeError('the certificate has no time in which it is valid')
  return { key, cert, notBefore, notAfter }
}

const readText = (path: string): string | undefined => attempt(() => readFileSync(path, 'utf8'))

function replaceFile(folder: string, name: string, content: string, replica: Replica | undefined): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  replaceFileSync(join(folder, name), content)
  replica?.replaceFile(join(folder, name), content)
}
