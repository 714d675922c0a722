/** @module Settings of the abuse watch: the thresholds at which it pauses an account. */
import type { SettingValues } from '#platform/config.ts'
import { flag, integer } from '#platform/setting-kinds.ts'

export const abuseRateSettings = {
  abuseBouncePercent: integer(
    10,
    1,
    100,
    'Hard bounces per 100 delivered or bounced recipients, over 24 hours, at which an account is paused.',
  ),
  abuseComplaintsPerMille: integer(
    3,
    1,
    1000,
    'Complaints per 1,000 delivered recipients, over 24 hours, at which an account is paused.',
  ),
  abuseMinimumVolume: integer(
    200,
    1,
    1_000_000,
    'Number of delivered or bounced recipients within 24 hours below which the two rates pause no account.',
  ),
}

export const abuseWatchSettings = {
  abuseContent: flag(true, 'Whether mail of accounts on TASSIS_ABUSE_PLANS is checked for phishing.'),
  abuseDomainsPerHour: integer(
    20,
    1,
    1_000_000,
    'Number of domains registered within an hour at which an account is paused.',
  ),
  abuseKeysPerHour: integer(
    30,
    1,
    1_000_000,
    'Number of API keys created within an hour at which an account is paused.',
  ),
  abuseSubAccountsPerHour: integer(
    20,
    1,
    1_000_000,
    'Number of sub-accounts created within an hour at which an account is paused.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof abuseRateSettings>, SettingValues<typeof abuseWatchSettings> {}
}
