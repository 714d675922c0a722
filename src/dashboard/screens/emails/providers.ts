/** @module Who receives the mail of a domain, by the name that people know. Pure. */

const DOMAINS_BY_PROVIDER: Readonly<Record<string, readonly string[]>> = {
  Gmail: ['gmail.com', 'googlemail.com'],
  Outlook: ['outlook.com', 'outlook.de', 'outlook.fr', 'hotmail.com', 'hotmail.co.uk', 'hotmail.fr', 'live.com'],
  'Outlook (MSN)': ['msn.com'],
  Yahoo: ['yahoo.com', 'yahoo.co.uk', 'yahoo.de', 'yahoo.fr', 'yahoo.co.jp', 'ymail.com', 'rocketmail.com'],
  AOL: ['aol.com'],
  iCloud: ['icloud.com', 'me.com', 'mac.com'],
  GMX: ['gmx.de', 'gmx.net', 'gmx.at', 'gmx.ch', 'gmx.com'],
  'WEB.DE': ['web.de'],
  Proton: ['proton.me', 'protonmail.com', 'pm.me'],
  Fastmail: ['fastmail.com', 'fastmail.fm'],
  Zoho: ['zoho.com', 'zohomail.com'],
  'T-Online': ['t-online.de'],
  Freenet: ['freenet.de'],
  Orange: ['orange.fr', 'wanadoo.fr'],
  'La Poste': ['laposte.net'],
  Comcast: ['comcast.net'],
  'Mail.ru': ['mail.ru'],
  Yandex: ['yandex.com', 'yandex.ru'],
}

const PROVIDERS: ReadonlyMap<string, string> = new Map(
  Object.entries(DOMAINS_BY_PROVIDER).flatMap(([name, domains]) => domains.map((domain) => [domain, name] as const)),
)

/** The provider of an address; otherwise its domain. */
export function toProvider(address: string): string {
  const domain = address.slice(address.lastIndexOf('@') + 1).toLowerCase()
  return PROVIDERS.get(domain) ?? domain
}
