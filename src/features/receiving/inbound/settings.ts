/** @module The settings of the inbound listener. */
import type { SettingValues } from '#platform/config.ts'
import { checked, integer, parseHostPort, size, text } from '#platform/setting-kinds.ts'
import { GiB, KiB, MiB } from '#platform/units.ts'

export const inboundSettings = {
  inboundAddr: checked(
    '',
    'an address such as 0.0.0.0:25 or [::]:25, or nothing',
    'Address and port at which mail comes in: inbound mail, bounces, complaints; empty: none comes in.',
    (v) => v === '' || parseHostPort(v) !== undefined,
  ),
  tlsCertFile: text(
    '',
    'PEM file of the certificate chain for STARTTLS, read again when it changes; empty: a self-signed certificate is made.',
    'a path',
  ),
  tlsKeyFile: text('', 'PEM file of the key of TASSIS_TLS_CERT_FILE.', 'a path'),
  inboundMaxMessageBytes: size(40 * MiB, 64 * KiB, 1 * GiB, 'Largest message that is taken in (SIZE, RFC 1870).'),
  inboundMaxRecipients: integer(100, 1, 1000, 'Most recipients of one incoming message.'),
  inboundConnections: integer(500, 1, 10_000, 'Incoming SMTP connections at the same time.'),
  inboundConnectionsPerIp: integer(20, 1, 10_000, 'Incoming SMTP connections from one address at the same time.'),
  inboundMessagesPerMinute: integer(
    600,
    1,
    1_000_000,
    'Messages that one address, of IPv6 a /64, may hand in within a minute; a /56 four times as many, a /48 sixteen times.',
  ),
  inboundBytesPerHour: size(
    2 * GiB,
    1 * MiB,
    10_000 * GiB,
    'Octets that one address, of IPv6 a /64, may hand in within an hour; a /56 four times as many, a /48 sixteen times.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof inboundSettings> {}
}
