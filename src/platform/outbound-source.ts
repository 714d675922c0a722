/** @module The items of `TASSIS_OUTBOUND_IPS`: an address, or an address with the name that is given in EHLO. */
import { isIP } from 'node:net'
import { HOST_NAME } from './setting-kinds.ts'

export interface ParsedSource {
  readonly ip: string
  readonly ehloName: string | undefined
}

/** Parses `192.0.2.1` or `192.0.2.1=mail1.example.com`; undefined for any other text. */
export function parseOutboundSource(item: string): ParsedSource | undefined {
  const [ip = '', ehloName, ...others] = item.split('=').map((part) => part.trim())
  if (isIP(ip) === 0 || others.length > 0) return undefined
  return ehloName === undefined || HOST_NAME.test(ehloName) ? { ip, ehloName } : undefined
}

/** The addresses of `TASSIS_OUTBOUND_IPS`. */
export const listOutboundIps = (items: readonly string[]): string[] =>
  items.flatMap((item) => parseOutboundSource(item)?.ip ?? [])
