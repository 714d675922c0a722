/** @module The setting of received messages. */
import type { SettingValues } from '#platform/config.ts'
import { integer } from '#platform/setting-kinds.ts'

export const rawMailSettings = {
  inboundRawDays: integer(30, 1, 3650, 'How long the raw form of a received message is kept.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof rawMailSettings> {}
}
