/** @module The settings of the inbound listener. */
import type { SettingValues } from '#platform/config.ts'
import { checked, integer, parseHostPort, size, text } from '#platform/setting-kinds.ts'
import { GiB, KiB, MiB } from '#platform/units.ts'

export const inboundSettings = {
  inboundAddr: checked(
    '',
    'an address such as 0.0.0.0:25 or [::]:25, or nothing',
    'Address and port of the SMTP listener for inbound mail, bounces and complaints; empty: no listener.',
    (v) => v === '' || parseHostPort(v) !== undefined,
  ),
  tlsCertFile: text(
    '',
    'PEM file of the certificate chain for SMTP and TASSIS_HTTPS_ADDR, reloaded when it changes; empty: that of TASSIS_ACME_TERMS_AGREED, else a self-signed one.',
    'a path',
  ),
  tlsKeyFile: text('', 'PEM file of the key of TASSIS_TLS_CERT_FILE.', 'a path'),
  inboundMaxMessageBytes: size(40 * MiB, 64 * KiB, 1 * GiB, 'Maximum size of a received message (SIZE, RFC 1870).'),
  inboundMaxRecipients: integer(100, 1, 1000, 'Maximum recipients of a received message.'),
  inboundConnections: integer(500, 1, 10_000, 'Maximum concurrent inbound SMTP connections.'),
  inboundConnectionsPerIp: integer(20, 1, 10_000, 'Maximum concurrent inbound SMTP connections from one address.'),
  inboundMessagesPerMinute: integer(
    600,
    1,
    1_000_000,
    'Messages per minute from one IPv4 address or IPv6 /64; a /56 may send four times as many, a /48 sixteen times.',
  ),
  inboundBytesPerHour: size(
    2 * GiB,
    1 * MiB,
    10_000 * GiB,
    'Octets per hour from one IPv4 address or IPv6 /64; a /56 may send four times as many, a /48 sixteen times.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof inboundSettings> {}
}
