/** @module The settings of sessions and sign-ins. */
import type { SettingValues } from '#platform/config.ts'
import { flag, integer } from '#platform/setting-kinds.ts'

export const teamSettings = {
  sessionDays: integer(14, 1, 365, 'How many days a browser stays signed in without being used.'),
  loginsPerMinute: integer(
    10,
    1,
    100_000,
    'Sign-in attempts, or requests for a new password, per minute from one address, or for IPv6 one /64 (a /56 has 4, a /48 16 times as many); half of them for one user from there.',
  ),
  dashboard: flag(true, 'Whether the dashboard is served at /app, where people get who sign in.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof teamSettings> {}
}
