/** @module The settings of webhooks. */
import type { SettingValues } from '#platform/config.ts'
import { integer, list, text } from '#platform/setting-kinds.ts'

export const webhookSettings = {
  webhookConcurrency: integer(
    10,
    1,
    1000,
    'Requests to one webhook at the same time; at most five while it takes over a second, one while it does not answer well.',
  ),
  webhookHistoryDays: integer(30, 1, 3650, 'Age at which finished webhook deliveries leave the history.'),
  compatHeaderPrefixes: list(
    'Further prefixes under which the X-Service-* headers of webhooks are repeated.',
    'a comma list of header prefixes such as X-Example',
    (v) => /^[A-Za-z][A-Za-z0-9-]{0,39}$/.test(v),
  ),
  extraCaFile: text(
    '',
    'PEM file of further certificate authorities that webhook endpoints may have their certificates from.',
    'a path',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof webhookSettings> {}
}
