/** @module The settings of captured mail. */
import type { SettingValues } from '#platform/config.ts'
import { integer, size } from '#platform/setting-kinds.ts'
import { GiB, MiB } from '#platform/units.ts'

export const captureSettings = {
  captureMaxBytes: size(
    64 * MiB,
    1 * MiB,
    100 * GiB,
    'Most bytes of captured messages; the account with most loses its oldest.',
  ),
  captureMaxHours: integer(72, 1, 8760, 'Age at which captured messages are removed.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof captureSettings> {}
}
