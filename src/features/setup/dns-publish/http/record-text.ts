/** @module Values of records as zone files have them (RFC 1035 §5.1), and as `RecordSet` has them. Pure. */
import { formatTxtData } from '../../domains/zone-file.ts'

/** The strings joined; a text that is not quoted stays as it is. `radix` is that of `\DDD`. */
export function parseTxt(text: string, radix = 10): string {
  if (!text.startsWith('"')) return text
  let isInside = false
  const octets: Buffer[] = []
  for (const [token] of text.matchAll(/\\\d{3}|\\.|"|[^\\"]+/gs)) {
    if (token === '"') isInside = !isInside
    else if (/^\\\d{3}$/.test(token)) octets.push(Buffer.of(Number.parseInt(token.slice(1), radix)))
    else if (isInside) octets.push(Buffer.from(token.replace(/^\\/, '')))
  }
  return Buffer.concat(octets).toString()
}

/** Lower case, without a trailing dot; `zone`: a name without a trailing dot is relative to it. */
export function parseName(text: string, zone?: string): string {
  const name = text.toLowerCase()
  if (name === '@') return zone ?? name
  if (name.endsWith('.')) return name.slice(0, -1) || name
  return zone === undefined ? name : `${name}.${zone}`
}

export function parseValue(type: string, text: string, zone?: string, radix?: number): string {
  if (type === 'TXT') return parseTxt(text, radix)
  if (type === 'CNAME') return parseName(text, zone)
  const [preference = '', exchange = ''] = text.trim().split(/\s+/)
  return type === 'MX' ? `${Number(preference)} ${parseName(exchange, zone)}` : text
}

export const formatValue = (type: string, value: string): string =>
  type === 'TXT' ? formatTxtData(value) : `${value}.`

/** @param apex how the provider writes the name of the zone itself */
export const toRelativeName = (name: string, zone: string, apex = '@'): string =>
  name === zone ? apex : name.slice(0, -zone.length - 1)
