/** @module The setting of broadcasts. */
import type { SettingValues } from '#platform/config.ts'
import { integer } from '#platform/setting-kinds.ts'

export const broadcastSettings = {
  broadcastAhead: integer(
    1000,
    10,
    100_000,
    'Emails of one broadcast in the mail queue at the same time; eight times as many when few sites hold most of them. The others wait outside the queue.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof broadcastSettings> {}
}
