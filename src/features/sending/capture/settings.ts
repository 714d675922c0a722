/** @module Settings of captured mail. */
import type { SettingValues } from '#platform/config.ts'
import { integer, size } from '#platform/setting-kinds.ts'
import { GiB, MiB } from '#platform/units.ts'

export const captureSettings = {
  captureMaxBytes: size(
    64 * MiB,
    1 * MiB,
    100 * GiB,
    'Maximum size of all captured messages; beyond it, the oldest messages of the account that uses most are deleted.',
  ),
  captureMaxHours: integer(72, 1, 8760, 'Age at which captured messages are deleted.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof captureSettings> {}
}
