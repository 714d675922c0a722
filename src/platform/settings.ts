/**
 * @module Settings of the platform: addresses, network, memory, keys, logs, disk. Each feature has its own
 * `settings.ts`.
 */
import { isIP } from 'node:net'
import { hostname as systemHostname } from 'node:os'
import { parseOutboundSource } from './outbound-source.ts'
import {
  checked,
  choice,
  flag,
  flagOr,
  HOST_NAME,
  integer,
  isCidr,
  isHttpUrl,
  list,
  parseHostPort,
  size,
  text,
} from './setting-kinds.ts'
import { GiB, KiB, MiB } from './units.ts'

export const serviceSettings = {
  dataDir: text(
    './data',
    'Folder of the database, the message contents, the master key and the admin socket; created at the first start.',
    'a path',
  ),
  httpAddr: checked(
    '127.0.0.1:8080',
    'an address such as 127.0.0.1:8080 or [::]:8080',
    'Address and port of the HTTP API.',
    (v) => parseHostPort(v) !== undefined,
  ),
  publicUrl: checked(
    (o) => `http://${String(o['httpAddr'])}`,
    'a URL such as https://mail.example.com',
    'The URL under which clients and recipients reach the HTTP API.',
    isHttpUrl,
  ),
  hostname: checked(
    () => localHostName(),
    'a host name such as mail.example.com',
    'Name given in EHLO and expected as MX and return-path target; its PTR record should match.',
    (v) => HOST_NAME.test(v),
  ),
}

export const networkSettings = {
  dnsServers: list(
    'DNS servers to query, in order; empty: those of the system.',
    'a comma-separated list of addresses such as 127.0.0.1:53 or [::1]:53',
    (v) => {
      const server = parseHostPort(v, 53)
      return server !== undefined && isIP(server.host) !== 0
    },
  ),
  smtpPort: integer(25, 1, 65_535, 'Port of receiving servers.'),
  outboundIps: list(
    'Source addresses of outgoing SMTP, each with the name that it gives in EHLO (its PTR record) if that is not TASSIS_HOSTNAME, and its pool if only the accounts of that pool send from it; empty: the system chooses.',
    'a comma-separated list of IP, IP=name, IP@pool or IP=name@pool, such as 192.0.2.1=mail1.example.com@news',
    (v) => parseOutboundSource(v) !== undefined,
  ),
  ipv6: flag(
    false,
    'Whether to connect to receivers over IPv6 as well; enable it once the PTR record of the IPv6 address is right.',
  ),
  allowPrivateNetworks: flagOr(
    'loopback',
    false,
    'Whether mail and webhooks may go to private and loopback addresses; `loopback` allows only the addresses of this machine. Only for tests and development.',
  ),
}

export const processSettings = {
  memoryBudget: size(
    256 * MiB,
    16 * MiB,
    1024 * GiB,
    'Limit for all request bodies and messages in flight; above it clients get 503 with Retry-After.',
  ),
  masterKeyFile: text(
    '',
    'File of the master key (32 bytes, base64; former keys below it); default: master.key in the data folder, created at the first start.',
    'a path',
  ),
  masterKey: {
    ...text(
      '',
      'The master key itself (32 bytes, base64), instead of a file; former keys follow after commas.',
      '32 bytes in base64',
    ),
    secret: true,
  },
  trustedProxies: list(
    'Proxies whose X-Forwarded-For is trusted.',
    'a comma-separated list of addresses or networks such as 127.0.0.1 or 10.0.0.0/8',
    isCidr,
  ),
  corsOrigins: list(
    'Origins whose pages may call the API with a key; a key in a page can be read by everyone who sees the page.',
    'a comma-separated list of origins such as https://example.com',
    (text) => URL.canParse(text) && new URL(text).origin === text,
  ),
  logLevel: choice(['trace', 'debug', 'info', 'warn', 'error', 'silent'], 'info', 'Minimum severity to log.'),
}

export const requestSettings = {
  maxBodyBytes: size(40 * MiB, 64 * KiB, 1 * GiB, 'Maximum size of an HTTP request body.'),
  strictClients: list(
    'Clients that refuse fields or statuses which they do not know: beginnings of their User-Agent, or `-` for requests without one. Their answers have only the fields and statuses of the interface; `uncertain` becomes `sent`, and `rejected` becomes `failed`.',
    'beginnings of User-Agent headers, separated by commas',
    (prefix) => prefix.length <= 200,
  ),
}

export const diskSettings = {
  minFreeDisk: size(
    64 * MiB,
    0,
    1024 * GiB,
    'Free disk space below which new data is refused with 507, so that accepted mail can still be processed.',
  ),
}

function localHostName(): string {
  const name = systemHostname()
  return HOST_NAME.test(name) ? name : 'localhost'
}
