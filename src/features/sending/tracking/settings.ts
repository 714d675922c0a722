/** @module The setting of open and click tracking. */
import type { SettingValues } from '#platform/config.ts'
import { integer } from '#platform/setting-kinds.ts'

export const trackingSettings = {
  trackingDays: integer(
    730,
    1,
    36_500,
    'How long after its email an open or click is counted; links redirect permanently.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof trackingSettings> {}
}
