/** @module The setting for the rotation of DKIM keys. */
import type { SettingValues } from '#platform/config.ts'
import { integer } from '#platform/setting-kinds.ts'

export const domainSettings = {
  dkimRotateDays: integer(
    0,
    0,
    3650,
    'After how many days a domain gets new DKIM keys, which sign once somebody has published their records; 0: never.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof domainSettings> {}
}
