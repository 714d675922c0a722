/** @module Warns about settings of listeners with TLS whose clients would reject the certificate. */
import type { Config } from '#platform/settings/config.ts'
import { isOrderable, listServiceHosts } from './hosts.ts'

/** Sentences for the log at the start. */
export function findCertificateWarnings(config: Config): readonly string[] {
  const { httpsAddr, tlsCertFile, tlsKeyFile, acmeTermsAgreed } = config
  const hasFile = tlsCertFile !== '' || tlsKeyFile !== ''
  const hasSubmission = config.submissionAddr !== '' || config.submissionTlsAddr !== ''
  const hosts = listServiceHosts(config)
  const warnings: string[] = []
  if (hosts.length === 0 && hasFile)
    warnings.push(
      'TASSIS_TLS_CERT_FILE and TASSIS_TLS_KEY_FILE are not used, because neither TASSIS_INBOUND_ADDR nor TASSIS_HTTPS_ADDR nor an address for submission is set',
    )
  if (hosts.length === 0 && acmeTermsAgreed)
    warnings.push(
      'TASSIS_ACME_TERMS_AGREED has no effect, because neither TASSIS_INBOUND_ADDR nor TASSIS_HTTPS_ADDR nor an address for submission is set',
    )
  if (hasFile) return warnings
  if (!acmeTermsAgreed && hasSubmission)
    warnings.push(
      'Clients of SMTP submission reject the self-signed certificate unless they trust it; set TASSIS_TLS_CERT_FILE and TASSIS_TLS_KEY_FILE',
    )
  if (!acmeTermsAgreed && httpsAddr !== '')
    warnings.push(
      'Clients of TASSIS_HTTPS_ADDR reject the self-signed certificate; set TASSIS_ACME_TERMS_AGREED=true to get one of a certificate authority, or TASSIS_TLS_CERT_FILE and TASSIS_TLS_KEY_FILE',
    )
  if (acmeTermsAgreed)
    for (const { host, uses } of hosts)
      if (!isOrderable(host))
        warnings.push(
          `No certificate authority issues a certificate for ${host}; set ${uses.includes('api') ? 'TASSIS_PUBLIC_URL' : 'TASSIS_HOSTNAME'} to a full host name`,
        )
  return warnings
}
