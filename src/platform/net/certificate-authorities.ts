/** @module The certificate authorities that outgoing connections trust: those of the system, and the operator's own. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { getCACertificates } from 'node:tls'
import { type Config, ConfigError } from '#platform/settings/config.ts'

/**
 * Returns the trusted certificate authorities in PEM; undefined when only the default ones are trusted. Throws
 * ConfigError when TASSIS_EXTRA_CA_FILE cannot be used.
 */
export function readCertificateAuthorities({
  extraCaFile: path,
}: Pick<Config, 'extraCaFile'>): readonly string[] | undefined {
  if (path === '') return undefined
  const createError = (what: string) =>
    new ConfigError(
      `TASSIS_EXTRA_CA_FILE is "${path}", which ${what}; use a readable file of PEM certificates, or unset it.`,
    )
  let content: string
  try {
    content = readFileSync(path, 'utf8')
  } catch {
    throw createError('cannot be read')
  }
  const certificates = content.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  if (certificates.length === 0) throw createError('holds no certificate')
  for (const certificate of certificates) {
    try {
      new X509Certificate(certificate)
    } catch {
      throw createError('holds a certificate that cannot be read')
    }
  }
  // A `ca` option replaces the default authorities, so they are included.
  return [...getCACertificates('default'), ...certificates]
}
