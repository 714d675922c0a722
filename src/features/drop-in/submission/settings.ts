/** @module The settings of SMTP submission. */
import type { SettingValues } from '#platform/config.ts'
import { checked, integer, parseHostPort, size } from '#platform/setting-kinds.ts'
import { GiB, KiB, MiB } from '#platform/units.ts'

const isAddress = (value: string): boolean => value === '' || parseHostPort(value) !== undefined

export const submissionSettings = {
  submissionAddr: checked(
    '',
    'an address such as 0.0.0.0:587 or [::]:587, or nothing',
    'Address and port for mail submission by SMTP with STARTTLS; empty: none. The certificate is that of inbound mail, TASSIS_TLS_CERT_FILE.',
    isAddress,
  ),
  submissionTlsAddr: checked(
    '',
    'an address such as 0.0.0.0:465 or [::]:465, or nothing',
    'Address and port for mail submission by SMTP with TLS from the first octet; empty: none.',
    isAddress,
  ),
  submissionMaxMessageBytes: size(40 * MiB, 64 * KiB, 1 * GiB, 'Maximum size of a submitted message (SIZE, RFC 1870).'),
  submissionConnections: integer(
    500,
    1,
    10_000,
    'Maximum concurrent submission connections; one account may have half of them.',
  ),
  submissionConnectionsPerIp: integer(
    50,
    1,
    10_000,
    'Maximum concurrent submission connections from one address, such as that of an office or of a server farm.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof submissionSettings> {}
}
