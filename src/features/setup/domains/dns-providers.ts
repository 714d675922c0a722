/**
 * @module Well-known DNS providers, recognised by the names of a zone's name servers, and the form in which they want
 * the name of a record typed. Looks nothing up.
 */

export interface DnsProvider {
  readonly name: string
  /** Domains of its name servers; a `*` at the end of a label stands for any characters. */
  readonly nameServers: readonly string[]
  /** Where records are edited; `{zone}` stands for the name of the zone. Only addresses that need no other value. */
  readonly editUrl?: string
  /** `absolute`: its form wants the full name. Default `relative`: it appends the zone itself. */
  readonly names?: 'relative' | 'absolute'
  /** What stands for the zone itself in a form with relative names; default `@`, empty: leave the field empty. */
  readonly apex?: '@' | ''
}

const PROVIDERS: readonly DnsProvider[] = [
  { name: 'all-inkl', nameServers: ['kasserver.com'], editUrl: 'https://kas.all-inkl.com/', apex: '' },
  {
    name: 'Amazon Route 53',
    nameServers: ['awsdns-*.com', 'awsdns-*.net', 'awsdns-*.org', 'awsdns-*.co.uk'],
    editUrl: 'https://console.aws.amazon.com/route53/v2/hostedzones',
    apex: '',
  },
  {
    name: 'Antagonist',
    nameServers: ['webhostingserver.nl', 'webhostingserver.be', 'webhostingserver.eu', 'antagonist.nl'],
  },
  { name: 'Aruba', nameServers: ['technorail.com', 'arubadns.net', 'arubadns.cz', 'aruba.it'] },
  {
    name: 'Azure DNS',
    nameServers: ['azure-dns.com', 'azure-dns.net', 'azure-dns.org', 'azure-dns.info'],
    editUrl: 'https://portal.azure.com/#browse/Microsoft.Network%2FdnsZones',
  },
  { name: 'bunny.net', nameServers: ['bunny.net'], editUrl: 'https://dash.bunny.net/dns', apex: '' },
  {
    name: 'Cloudflare',
    nameServers: ['ns.cloudflare.com', 'secondary.cloudflare.com'],
    editUrl: 'https://dash.cloudflare.com/?to=/:account/:zone/dns/records',
  },
  {
    name: 'ClouDNS',
    nameServers: ['cloudns.net', 'cloudns.uk', 'cloudns.ph'],
    editUrl: 'https://www.cloudns.net/main/',
    apex: '',
  },
  { name: 'Combell', nameServers: ['combell.net', 'combell.com'], editUrl: 'https://my.combell.com/' },
  { name: 'cyon', nameServers: ['cyon.ch'], editUrl: 'https://my.cyon.ch/' },
  { name: 'deSEC', nameServers: ['desec.io', 'desec.org'], editUrl: 'https://desec.io/domains/{zone}' },
  {
    name: 'DigitalOcean',
    nameServers: ['digitalocean.com'],
    editUrl: 'https://cloud.digitalocean.com/networking/domains/{zone}',
  },
  {
    name: 'Dinahosting',
    nameServers: ['dinahosting.com', 'gestiondecuenta.com'],
    editUrl: 'https://panel.dinahosting.com/',
  },
  {
    name: 'DNSimple',
    nameServers: ['dnsimple.com', 'dnsimple-edge.net', 'dnsimple-edge.com', 'dnsimple-edge.org', 'dnsimple-edge.io'],
    editUrl: 'https://dnsimple.com/dashboard',
    apex: '',
  },
  {
    name: 'easyname',
    nameServers: ['easyname.eu', 'easyname.com', 'easyname.at'],
    editUrl: 'https://my.easyname.com/',
    apex: '',
  },
  { name: 'Fasthosts', nameServers: ['fasthosts.net.uk', 'livedns.co.uk'] },
  { name: 'Gandi', nameServers: ['gandi.net'], editUrl: 'https://admin.gandi.net/domain' },
  { name: 'GoDaddy', nameServers: ['domaincontrol.com'], editUrl: 'https://dcc.godaddy.com/manage/{zone}/dns' },
  { name: 'Google Cloud DNS or Squarespace', nameServers: ['googledomains.com'] },
  { name: 'Squarespace', nameServers: ['squarespacedns.com'], editUrl: 'https://account.squarespace.com/domains' },
  {
    name: 'Hetzner',
    nameServers: ['ns.hetzner.com', 'ns.hetzner.de', 'first-ns.de', 'second-ns.de', 'second-ns.com', 'your-server.de'],
    editUrl: 'https://console.hetzner.com/',
  },
  { name: 'hosttech', nameServers: ['hosttech.eu', 'hosttech.ch'], apex: '' },
  { name: 'Hover', nameServers: ['hover.com'], editUrl: 'https://www.hover.com/control_panel/domain/{zone}/dns' },
  {
    name: 'Infomaniak',
    nameServers: ['infomaniak.ch', 'infomaniak.com'],
    editUrl: 'https://manager.infomaniak.com/',
    apex: '',
  },
  {
    name: 'INWX',
    nameServers: ['inwx.de', 'inwx.eu', 'inwx.com', 'inwx.net'],
    editUrl: 'https://www.inwx.com/en/nameserver2',
    apex: '',
  },
  {
    name: 'IONOS',
    nameServers: ['ui-dns.com', 'ui-dns.de', 'ui-dns.org', 'ui-dns.biz', '1and1.com', '1and1.de'],
    editUrl: 'https://my.ionos.com/domains',
  },
  { name: 'jweiland.net', nameServers: ['jweiland.net'], names: 'absolute' },
  { name: 'Linode', nameServers: ['linode.com'], editUrl: 'https://cloud.linode.com/domains', apex: '' },
  { name: 'Loopia', nameServers: ['loopia.se'], editUrl: 'https://customerzone.loopia.com/' },
  { name: 'LuaDNS', nameServers: ['luadns.net', 'luadns.com'], editUrl: 'https://app.luadns.com/' },
  {
    name: 'Namecheap',
    nameServers: ['registrar-servers.com', 'namecheaphosting.com'],
    editUrl: 'https://ap.www.namecheap.com/Domains/DomainControlPanel/{zone}/advancedns',
  },
  { name: 'netcup', nameServers: ['netcup.net', 'netcup.de'], editUrl: 'https://www.customercontrolpanel.de/' },
  {
    name: 'Njalla',
    nameServers: ['njalla.in', 'njalla.no', 'njalla.fo', 'njal.la'],
    editUrl: 'https://njal.la/domains/{zone}/',
  },
  { name: 'Netlify or NS1', nameServers: ['nsone.net'] },
  { name: 'one.com', nameServers: ['one.com', 'one-dns.net'], editUrl: 'https://www.one.com/admin/', apex: '' },
  {
    name: 'OVHcloud',
    nameServers: ['ovh.net', 'ovh.ca', 'anycast.me'],
    editUrl: 'https://www.ovh.com/manager/#/web/zone/{zone}',
    apex: '',
  },
  { name: 'Porkbun', nameServers: ['porkbun.com'], editUrl: 'https://porkbun.com/account/domains', apex: '' },
  { name: 'Scaleway', nameServers: ['dom.scw.cloud'], editUrl: 'https://console.scaleway.com/domains', apex: '' },
  {
    name: 'Simply.com',
    nameServers: ['simply.com', 'unoeuro.com'],
    editUrl: 'https://www.simply.com/en/controlpanel/',
  },
  {
    name: 'STRATO',
    nameServers: ['rzone.de', 'strato.de'],
    editUrl: 'https://www.strato.de/apps/CustomerService',
    apex: '',
  },
  { name: 'TransIP', nameServers: ['transip.net', 'transip.nl', 'transip.eu'], editUrl: 'https://www.transip.nl/cp/' },
  { name: 'Vercel', nameServers: ['vercel-dns.com'], editUrl: 'https://vercel.com/dashboard/domains', apex: '' },
  { name: 'Vultr', nameServers: ['vultr.com'], editUrl: 'https://my.vultr.com/dns/', apex: '' },
]

/**
 * The provider that runs all of these name servers; undefined when it is unknown, or when several do and it is not
 * clear where records are edited.
 */
export function findDnsProvider(nameServers: readonly string[]): DnsProvider | undefined {
  const [first, ...others] = nameServers
  const provider = first === undefined ? undefined : PROVIDERS.find((one) => runs(one, first))
  return provider && others.every((server) => runs(provider, server)) ? provider : undefined
}

const runs = ({ nameServers }: DnsProvider, server: string): boolean =>
  nameServers.some((pattern) => {
    const labels = pattern.split('.')
    const found = server.split('.').slice(-labels.length)
    return found.length === labels.length && labels.every((label, i) => matchesLabel(label, found[i] ?? ''))
  })

/** A `*` at the end of a label stands for any characters. */
const matchesLabel = (pattern: string, label: string): boolean =>
  pattern.endsWith('*') ? label.startsWith(pattern.slice(0, -1)) : label === pattern

/** The address at which the records of a zone are edited; null: unknown. */
export const getEditUrl = ({ editUrl }: DnsProvider, zone: string): string | null =>
  editUrl?.replace('{zone}', encodeURIComponent(zone)) ?? null

/** The name of a record as the provider's form wants it typed; an unknown provider's takes relative names. */
export function toTypedName(name: string, zone: string, provider: DnsProvider | undefined): string {
  if (provider?.names === 'absolute') return name
  if (name === zone) return provider?.apex ?? '@'
  return name.endsWith(`.${zone}`) ? name.slice(0, -zone.length - 1) : name
}
