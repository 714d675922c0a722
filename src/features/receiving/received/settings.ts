/** @module The setting for received messages. */
import type { SettingValues } from '#platform/config.ts'
import { integer } from '#platform/setting-kinds.ts'

export const rawMailSettings = {
  inboundRawDays: integer(30, 1, 3650, 'Retention of raw received messages.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof rawMailSettings> {}
}
