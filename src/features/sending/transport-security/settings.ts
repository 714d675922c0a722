/** @module The settings of transport security: which published policies are obeyed and reported on. */
import type { SettingValues } from '#platform/config.ts'
import { choice, flag, integer } from '#platform/setting-kinds.ts'

export const transportSecuritySettings = {
  mtaSts: flag(
    true,
    'Whether mail in delivery mode direct obeys the MTA-STS policies of recipient domains (RFC 8461).',
  ),
  mtaStsPort: integer(443, 1, 65_535, 'Port of the servers of MTA-STS policies.'),
  dane: choice(
    ['auto', 'on', 'off'],
    'auto',
    'Whether mail in delivery mode direct obeys the TLSA records of mail hosts (DANE, RFC 7672). auto: if all DNS servers are on this machine and validate DNSSEC; on: also with DNS servers elsewhere, over a network that nobody can tamper with.',
  ),
  tlsReports: flag(
    true,
    'Whether domains that ask for them get a daily report about TLS to their mail hosts (TLS-RPT, RFC 8460), in delivery mode direct.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof transportSecuritySettings> {}
}
