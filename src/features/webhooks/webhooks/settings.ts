/** @module The settings of webhooks. */
import type { SettingValues } from '#platform/config.ts'
import { integer, list, text } from '#platform/setting-kinds.ts'

export const webhookSettings = {
  webhookConcurrency: integer(
    10,
    1,
    1000,
    'Requests to one webhook at the same time; at most five while it responds slower than a second, one while it fails.',
  ),
  webhookHistoryDays: integer(30, 1, 3650, 'Age at which finished webhook deliveries are deleted from the history.'),
  compatHeaderPrefixes: list(
    'Extra prefixes under which the X-Service-* headers of webhooks are repeated: those that the public clients of the interface read.',
    'a comma-separated list of header prefixes such as X-Example',
    (v) => /^[A-Za-z][A-Za-z0-9-]{0,39}$/.test(v),
    ['X-Euromail'],
  ),
  extraCaFile: text(
    '',
    'PEM file of additional certificate authorities for webhook endpoints and TASSIS_ACME_URL.',
    'a path',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof webhookSettings> {}
}
