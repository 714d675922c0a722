/** @module The settings of the abuse watch: figures at which an account is paused. */
import type { SettingValues } from '#platform/config.ts'
import { flag, integer } from '#platform/setting-kinds.ts'

export const abuseRateSettings = {
  abuseBouncePercent: integer(
    10,
    1,
    100,
    'Hard bounces of 100 recipients delivered to or bounced, over 24 hours, at which an account is paused.',
  ),
  abuseComplaintsPerMille: integer(
    3,
    1,
    1000,
    'Complaints of 1,000 recipients delivered to, over 24 hours, at which an account is paused.',
  ),
  abuseMinimumVolume: integer(
    200,
    1,
    1_000_000,
    'Recipients delivered to or bounced in 24 hours below which the two rates pause nobody.',
  ),
}

export const abuseWatchSettings = {
  abuseContent: flag(true, 'Whether mail of accounts of TASSIS_ABUSE_PLANS is looked at for phishing.'),
  abuseDomainsPerHour: integer(
    20,
    1,
    1_000_000,
    'Domains registered by an account within an hour at which it is paused.',
  ),
  abuseKeysPerHour: integer(30, 1, 1_000_000, 'API keys made by an account within an hour at which it is paused.'),
  abuseSubAccountsPerHour: integer(
    20,
    1,
    1_000_000,
    'Sub-accounts made by an account within an hour at which it is paused.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof abuseRateSettings>, SettingValues<typeof abuseWatchSettings> {}
}
