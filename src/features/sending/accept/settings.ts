/**
 * @module Settings for accepting email: unverified domains, repeated idempotency keys, limits of one email, send rate.
 */
import type { SettingValues } from '#platform/config.ts'
import { choice, integer, size } from '#platform/setting-kinds.ts'
import { GiB, KiB, MiB } from '#platform/units.ts'

export const acceptanceSettings = {
  sendingUnverified: choice(
    ['sandbox', 'reject'],
    'sandbox',
    'Mail from a registered domain that was never verified: captured and shown (sandbox), or rejected with 422 (reject).',
  ),
  idempotencyMismatch: choice(
    ['replay', 'conflict'],
    'replay',
    'A send whose idempotency key was used for other content: returns the first email, marked as a mismatch (replay), or fails with 409 (conflict).',
  ),
}

export const emailLimitSettings = {
  maxAttachmentBytes: size(25 * MiB, 0, 1 * GiB, 'Maximum total size of the attachments of one email, decoded.'),
  maxRecipients: integer(50, 1, 1000, 'Maximum number of recipients (To, Cc and Bcc) of one email.'),
  maxHeaders: integer(50, 0, 1000, 'Maximum number of extra headers of one email.'),
  maxHeaderOctets: integer(998, 78, 998, 'Maximum line length of an extra header, including its name.'),
  maxTags: integer(20, 0, 1000, 'Maximum number of tags of one email.'),
  maxTagCharacters: integer(128, 1, 1000, 'Maximum length of a tag.'),
  maxMetadataBytes: size(16 * KiB, 0, 1 * MiB, 'Maximum size of the metadata of one email, as JSON.'),
  sendRatePerSecond: integer(
    100,
    1,
    1_000_000,
    'Send requests per second of one account, long-term; plan unlimited has no limit.',
  ),
  sendBurst: integer(1000, 1, 1_000_000, 'Send requests that an account may make in a burst.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof acceptanceSettings>, SettingValues<typeof emailLimitSettings> {}
}
