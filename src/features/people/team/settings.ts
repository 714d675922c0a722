/** @module The settings of sessions and sign-ins. */
import type { SettingValues } from '#platform/config.ts'
import { flag, integer } from '#platform/setting-kinds.ts'

export const teamSettings = {
  sessionDays: integer(14, 1, 365, 'How many days a browser stays signed in without being used.'),
  loginsPerMinute: integer(
    10,
    1,
    100_000,
    'Sign-in attempts, or requests for a new password, per minute from one IPv4 address or IPv6 /64. An IPv6 /56 gets 4 times as many, a /48 16 times. From one network, half as many may be for the same user.',
  ),
  dashboard: flag(true, 'Whether the dashboard is served at /app, where people get who sign in.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof teamSettings> {}
}
