/** @module The settings of delivery: destination of mail, and limits. */
import { type Config, ConfigError, type SettingValues } from '#platform/config.ts'
import { checked, choice, integer, isRelayUrl, text } from '#platform/setting-kinds.ts'

export const deliveryModeSettings = {
  delivery: choice(
    ['direct', 'relay', 'capture'],
    'direct',
    'direct: to the MX of each recipient; relay: everything to TASSIS_RELAY_URL; capture: nothing is sent, messages are stored for viewing.',
  ),
  relayUrl: {
    ...checked(
      '',
      'a URL such as smtp://user:password@smtp.example.com:587 or smtps://...:465',
      'Smarthost of delivery mode relay, and of providers whose route is "smarthost" (without it, these use TASSIS_OVERFLOW_URL).',
      (v) => v === '' || isRelayUrl(v),
    ),
    secret: true,
  },
  relayTls: choice(
    ['opportunistic', 'required'],
    'required',
    'Whether the smarthost must offer TLS with a valid certificate (smtps:// always does).',
  ),
}

export const deliverySettings = {
  overflowUrl: {
    ...checked(
      '',
      'a URL such as smtp://user:password@smtp.example.com:587 or smtps://...:465',
      'Smarthost for mail that would wait: for a suspended provider, or over the daily budget of a new address. Needs verified TLS unless TASSIS_RELAY_TLS says otherwise. Empty: such mail waits.',
      (v) => v === '' || isRelayUrl(v),
    ),
    secret: true,
  },
  overflowAfter: integer(
    0,
    0,
    10_080,
    'Minutes after which mail that waits for anything at its provider goes to TASSIS_OVERFLOW_URL; 0: only for the reasons named there.',
  ),
  warmUp: choice(
    ['off', 'broadcasts', 'all'],
    'broadcasts',
    'What a daily budget per provider limits while an outgoing address is new: broadcasts, or all mail. Mail over it goes to TASSIS_OVERFLOW_URL; without one, what is limited waits for the next day (UTC), and the rest is sent.',
  ),
  workers: integer(2, 1, 64, 'Workers that compose, sign and hold SMTP connections; about one per core.'),
  connectionsPerSite: integer(
    10,
    1,
    1000,
    'SMTP connections to one receiving site at the same time. Providers in the list of providers have figures of their own.',
  ),
  messagesPerConnection: integer(100, 1, 100_000, 'Messages sent over one SMTP connection before it is closed.'),
  deliveryConcurrency: integer(
    500,
    1,
    10_000,
    'Messages in delivery at the same time, over all sites. One account may use at most half of them.',
  ),
  connectionIdleSeconds: integer(
    5,
    0,
    300,
    'How long an idle SMTP connection stays open for the next message to its site.',
  ),
  providersFile: text(
    '',
    'TOML file that overrides limits of receiving providers by name; see docs/architecture.md, "Providers".',
    'a path',
  ),
  retryExpiryHours: integer(48, 1, 240, 'How long a deferred message is retried before it bounces as expired.'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof deliveryModeSettings>, SettingValues<typeof deliverySettings> {}
}

/** Throws ConfigError when delivery mode is relay and no smarthost is set. */
export function requireRelayUrl({ delivery, relayUrl }: Pick<Config, 'delivery' | 'relayUrl'>): void {
  if (delivery === 'relay' && relayUrl === '') {
    throw new ConfigError(
      'TASSIS_DELIVERY is "relay" but TASSIS_RELAY_URL is not set; set it to a URL such as smtp://user:password@smtp.example.com:587.',
    )
  }
}
