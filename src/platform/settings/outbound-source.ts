/**
 * @module The items of `TASSIS_OUTBOUND_IPS`: an address, the name that is given in EHLO, and the pool to which it
 * belongs; the last two are optional.
 */
import { isIP } from 'node:net'
import { HOST_NAME } from './setting-kinds.ts'

export interface ParsedSource {
  readonly ip: string
  readonly ehloName: string | undefined
  /** Undefined for an address of no pool, from which all mail without a pool leaves. */
  readonly pool: string | undefined
}

export const POOL_NAME = /^[a-z0-9][a-z0-9-]{0,39}$/

/** Parses `192.0.2.1`, `192.0.2.1=mail1.example.com` or either with `@pool` at its end; undefined for any other text. */
export function parseOutboundSource(item: string): ParsedSource | undefined {
  const [address = '', pool, ...otherPools] = item.split('@').map((part) => part.trim())
  const [ip = '', ehloName, ...others] = address.split('=').map((part) => part.trim())
  if (isIP(ip) === 0 || others.length > 0 || otherPools.length > 0) return undefined
  if (pool !== undefined && !POOL_NAME.test(pool)) return undefined
  return ehloName === undefined || HOST_NAME.test(ehloName) ? { ip, ehloName, pool } : undefined
}

/** The addresses of `TASSIS_OUTBOUND_IPS`. */
export const listOutboundIps = (items: readonly string[]): string[] =>
  items.flatMap((item) => parseOutboundSource(item)?.ip ?? [])
