/** @module The settings of retention: ages and budgets. */
import type { SettingValues } from '#platform/config.ts'
import { integer, size } from '#platform/setting-kinds.ts'
import { GiB } from '#platform/units.ts'

export const retentionSettings = {
  contentDays: integer(90, 1, 36_500, 'How long bodies and attachments of sent mail are kept.'),
  contentMaxBytes: size(
    20 * GiB,
    0,
    100_000 * GiB,
    'Most bytes of bodies and attachments of sent mail; accounts above their share lose their oldest; 0: no bound.',
  ),
  eventsDays: integer(365, 1, 36_500, 'How long events are kept in the event log.'),
  eventsMaxBytes: size(
    10 * GiB,
    0,
    100_000 * GiB,
    'Most bytes of the event log; accounts above their share lose their oldest; 0: no bound.',
  ),
  inboundDays: integer(365, 1, 36_500, 'How long received mail is kept, in agent mailboxes as well.'),
  inboundMaxBytes: size(
    20 * GiB,
    0,
    100_000 * GiB,
    'Most bytes of received mail; accounts above their share lose their oldest; 0: no bound.',
  ),
  logsDays: integer(
    730,
    1,
    36_500,
    'How long it is kept which emails were sent and what became of each, and operations.',
  ),
  logsMaxBytes: size(
    20 * GiB,
    0,
    100_000 * GiB,
    'Most bytes of that; accounts above their share lose their oldest; 0: no bound.',
  ),
  auditDays: integer(1095, 30, 36_500, 'How long entries of the audit log are kept.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof retentionSettings> {}
}
