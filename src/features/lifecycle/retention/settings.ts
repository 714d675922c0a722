/** @module Settings of retention: ages and budgets. */
import type { SettingValues } from '#platform/config.ts'
import { shareOfDisk } from '#platform/disk-space.ts'
import { integer, size } from '#platform/setting-kinds.ts'
import { GiB } from '#platform/units.ts'

/** The sizes add up to 80 % of the disk: contacts, histories, logs and indexes need the rest. */
export const retentionSettings = {
  contentDays: integer(90, 1, 36_500, 'How long bodies and attachments of sent mail are kept.'),
  contentMaxBytes: size(
    shareOfDisk(0.25),
    0,
    100_000 * GiB,
    'Maximum bytes of bodies and attachments of sent mail; accounts above their share lose their oldest; 0: no limit.',
  ),
  eventsDays: integer(365, 1, 36_500, 'How long events are kept in the event log.'),
  eventsMaxBytes: size(
    shareOfDisk(0.1),
    0,
    100_000 * GiB,
    'Maximum bytes of the event log; accounts above their share lose their oldest; 0: no limit.',
  ),
  inboundDays: integer(365, 1, 36_500, 'How long received mail is kept, in agent mailboxes as well.'),
  inboundMaxBytes: size(
    shareOfDisk(0.2),
    0,
    100_000 * GiB,
    'Maximum bytes of received mail; accounts above their share lose their oldest; 0: no limit.',
  ),
  logsDays: integer(730, 1, 36_500, 'How long the records of emails and their outcomes are kept, and operations.'),
  logsMaxBytes: size(
    shareOfDisk(0.25),
    0,
    100_000 * GiB,
    'Maximum bytes of these records; accounts above their share lose their oldest; 0: no limit.',
  ),
  auditDays: integer(1095, 30, 36_500, 'How long entries of the audit log are kept.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof retentionSettings> {}
}
