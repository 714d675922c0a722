/** @module The settings of signup forms. */
import type { SettingValues } from '#platform/config.ts'
import { integer } from '#platform/setting-kinds.ts'

export const signupFormSettings = {
  formPostsPerMinute: integer(
    10,
    1,
    1_000_000,
    'Posts to signup forms a minute from one address, of IPv6 a /64; a /56 may post four times and a /48 sixteen times as often.',
  ),
  formConfirmationsPerHour: integer(
    1000,
    1,
    1_000_000,
    'Confirmation and welcome emails an hour that posts to the signup forms of one account may cause; those to one form at most half of them.',
  ),
  formNetworkMailsPerHour: integer(
    60,
    1,
    1_000_000,
    'Confirmation and welcome emails an hour of one account that one address, of IPv6 a /64, may cause by posts to signup forms, of all accounts five times as many; a /56 four times and a /48 sixteen times as many.',
  ),
  formNetworkMailsPerDay: integer(
    300,
    1,
    1_000_000,
    'The same a day: confirmation and welcome emails of one account that one address may cause.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof signupFormSettings> {}
}
