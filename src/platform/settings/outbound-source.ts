/**
 * @module The items of `TASSIS_OUTBOUND_IPS`: an address, the name that is given in EHLO, the pool to which it belongs, and
 * the SOCKS5 proxy that has the address; all but the first are optional.
 */
import { isIP } from 'node:net'
import { perOwner } from '../per-owner.ts'
import { HOST_NAME } from './setting-kinds.ts'

export interface ParsedSource {
  readonly ip: string
  readonly ehloName: string | undefined
  /** Undefined for an address of no pool, from which all mail without a pool leaves. */
  readonly pool: string | undefined
  /** Undefined for an address of this machine. */
  readonly proxy?: ProxyServer | undefined
}

export interface ProxyServer {
  readonly host: string
  readonly port: number
  readonly login: { readonly user: string; readonly password: string } | undefined
}

export const POOL_NAME = /^[a-z0-9][a-z0-9-]{0,39}$/

/**
 * Parses `192.0.2.1`, `192.0.2.1=mail1.example.com`, either with `@pool`, and any of these with ` via socks5://host:port`,
 * which may have a login; undefined for any other text.
 */
export function parseOutboundSource(item: string): ParsedSource | undefined {
  const [source = '', url, ...otherUrls] = item.split(/\svia\s/)
  const [address = '', pool, ...otherPools] = source.split('@').map((part) => part.trim())
  const [ip = '', ehloName, ...others] = address.split('=').map((part) => part.trim())
  if (isIP(ip) === 0 || others.length + otherPools.length + otherUrls.length > 0) return undefined
  if (pool !== undefined && !POOL_NAME.test(pool)) return undefined
  const proxy = url === undefined ? undefined : parseProxy(url.trim())
  if (url !== undefined && !proxy) return undefined
  return ehloName === undefined || HOST_NAME.test(ehloName) ? { ip, ehloName, pool, proxy } : undefined
}

/** Of user and of password (RFC 1929 §2). */
const MAX_LOGIN_BYTES = 255

function parseProxy(text: string): ProxyServer | undefined {
  const url = URL.parse(text)
  if (url?.protocol !== 'socks5:' || url.search !== '' || url.hash !== '' || url.pathname.length > 1) return undefined
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = Number(url.port || 1080)
  if ((isIP(host) === 0 && !HOST_NAME.test(host)) || port === 0) return undefined
  if (url.username === '' && url.password === '') return { host, port, login: undefined }
  if (url.username === '' || url.password === '') return undefined
  try {
    const [user = '', password = ''] = [url.username, url.password].map(decodeURIComponent)
    const isShort = Math.max(Buffer.byteLength(user), Buffer.byteLength(password)) <= MAX_LOGIN_BYTES
    return isShort ? { host, port, login: { user, password } } : undefined
  } catch {
    return undefined
  }
}

/** The proxies of addresses. */
export const listProxies = (items: readonly string[]): ReadonlyMap<string, ProxyServer> =>
  new Map(items.map(parseOutboundSource).flatMap((source) => (source?.proxy ? [[source.ip, source.proxy]] : [])))

/** The addresses of `TASSIS_OUTBOUND_IPS`. */
export const listOutboundIps = (items: readonly string[]): string[] =>
  items.flatMap((item) => parseOutboundSource(item)?.ip ?? [])

/** The addresses from which mail leaves when none is configured, as far as they are known: those of the host name. */
export const foundIpsOf = perOwner((_: object): { ips: readonly string[] } => ({ ips: [] }))
