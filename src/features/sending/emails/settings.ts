/** @module The settings of accepting emails: unverified domains, repeated keys, limits of one email, send rate. */
import type { SettingValues } from '#platform/config.ts'
import { choice, integer, size } from '#platform/setting-kinds.ts'
import { GiB, KiB, MiB } from '#platform/units.ts'

export const acceptanceSettings = {
  sendingUnverified: choice(
    ['sandbox', 'reject'],
    'sandbox',
    'Mail from a registered domain that never was verified: captured and shown (sandbox), or refused with 422.',
  ),
  idempotencyMismatch: choice(
    ['replay', 'conflict'],
    'replay',
    'A send whose idempotency key was used for other content: the first email again, marked as a mismatch (replay), or a 409.',
  ),
}

export const emailLimitSettings = {
  maxAttachmentBytes: size(25 * MiB, 0, 1 * GiB, 'Largest sum of the attachments of one email, decoded.'),
  maxRecipients: integer(50, 1, 1000, 'Most recipients (To, Cc and Bcc) of one email.'),
  maxHeaders: integer(50, 0, 1000, 'Most further headers of one email.'),
  maxHeaderOctets: integer(998, 78, 998, 'Longest line of a further header, with its name.'),
  maxTags: integer(20, 0, 1000, 'Most tags of one email.'),
  maxTagCharacters: integer(128, 1, 1000, 'Longest tag.'),
  maxMetadataBytes: size(16 * KiB, 0, 1 * MiB, 'Largest metadata of one email, as JSON.'),
  sendRatePerSecond: integer(
    100,
    1,
    1_000_000,
    'Send requests a second of one account, long-term; plan unlimited has no bound.',
  ),
  sendBurst: integer(1000, 1, 1_000_000, 'Send requests that an account may make at once.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof acceptanceSettings>, SettingValues<typeof emailLimitSettings> {}
}
