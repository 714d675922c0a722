/** @module The settings of signup forms. */
import type { SettingValues } from '#platform/config.ts'
import { integer } from '#platform/setting-kinds.ts'

export const signupFormSettings = {
  formPostsPerMinute: integer(
    10,
    1,
    1_000_000,
    'Posts to signup forms per minute from one address, or for IPv6 one /64; a /56 may post four times and a /48 sixteen times as often.',
  ),
  formConfirmationsPerHour: integer(
    1000,
    1,
    1_000_000,
    'Confirmation and welcome emails per hour that posts to the signup forms of one account may cause; posts to one form may cause at most half of them.',
  ),
  formNetworkMailsPerHour: integer(
    60,
    1,
    1_000_000,
    'Confirmation and welcome emails per hour that posts from one address, or for IPv6 one /64, may cause for one account. For all accounts together the limit is five times as high; a /56 may cause four times and a /48 sixteen times as many emails.',
  ),
  formNetworkMailsPerDay: integer(
    300,
    1,
    1_000_000,
    'The same limit per day: confirmation and welcome emails that posts from one address may cause for one account.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof signupFormSettings> {}
}
