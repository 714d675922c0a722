/** @module The settings of sessions and sign-ins. */
import type { SettingValues } from '#platform/config.ts'
import { integer } from '#platform/setting-kinds.ts'

export const teamSettings = {
  sessionDays: integer(14, 1, 365, 'How long a browser stays signed in without being used.'),
  loginsPerMinute: integer(
    10,
    1,
    100_000,
    'Attempts to sign in, or requests for a new password, a minute from one address, of IPv6 a /64 (a /56 has 4, a /48 16 times as many); from there for one user half of them.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof teamSettings> {}
}
