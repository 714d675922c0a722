/** @module Settings of the HTTPS listener, and of certificates from a certificate authority. */
import type { SettingValues } from '#platform/config.ts'
import { checked, flag, isHttpUrl, parseHostPort } from '#platform/setting-kinds.ts'

export const certificateSettings = {
  httpsAddr: checked(
    '',
    'an address such as 0.0.0.0:443 or [::]:443, or nothing',
    'Address and port of the HTTP API over TLS, with the certificates of TASSIS_ACME_TERMS_AGREED or TASSIS_TLS_CERT_FILE; empty: none, a proxy has the certificates.',
    (v) => v === '' || parseHostPort(v) !== undefined,
  ),
  acmeTermsAgreed: flag(
    false,
    'Whether to get and renew certificates from TASSIS_ACME_URL; true means that you agree to the terms of service of that certificate authority.',
  ),
  acmeEmail: checked(
    '',
    'an address, or nothing',
    'Where the certificate authority may reach you; it learns this address.',
    (v) => v === '' || /^[^\s@,;?]+@[^\s@,;?]+$/.test(v),
  ),
  acmeUrl: checked(
    'https://acme-v02.api.letsencrypt.org/directory',
    'an https URL',
    'Directory of the certificate authority (ACME, RFC 8555); one of your own needs its root in TASSIS_EXTRA_CA_FILE.',
    (v) => isHttpUrl(v) && v.startsWith('https:'),
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof certificateSettings> {}
}
