/**
 * @module Adapts our resolver to the function that mailauth expects for SPF, DKIM and DMARC: `resolve(name, type)` of
 * node:dns, with its results and error codes.
 */
import type { Answer, Resolver } from './resolver.ts'

/**
 * The function that mailauth calls. Returns each TXT record as a list of strings, each MX record as an object, any
 * other record as text. Rejects with an Error that has a `code`.
 */
export type MailauthResolver = (name: string, type: string) => Promise<string[] | string[][]>

const CODES = {
  nodata: 'ENODATA',
  nxdomain: 'ENOTFOUND',
  servfail: 'ESERVFAIL',
  refused: 'EREFUSED',
  timeout: 'ETIMEOUT',
  loop: 'ESERVFAIL',
} as const

const METHODS = { A: 'a', AAAA: 'aaaa', CNAME: 'cname', PTR: 'ptr' } as const

export function createMailauthResolver(resolver: Resolver): MailauthResolver {
  return async (name, type) => {
    switch (type) {
      case 'TXT':
        return requireRecords(await resolver.txt(name), name, type).map((text) => [text])
      case 'A':
      case 'AAAA':
      case 'CNAME':
      case 'PTR':
        return requireRecords(await resolver[METHODS[type]](name), name, type)
      case 'MX': {
        const records = requireRecords(await resolver.mx(name), name, type)
        // mailauth's type declares only texts, but its code reads objects for MX records.
        return records.map(({ exchange, preference }) => ({ exchange, priority: preference })) as unknown as string[]
      }
      default:
        throw Object.assign(new Error(`unsupported record type: ${type}`), { code: 'ENODATA' })
    }
  }
}

function requireRecords<T>(answer: Answer<T>, name: string, type: string): T[] {
  if (answer.kind === 'ok') return [...answer.records]
  const code = CODES[answer.kind]
  throw Object.assign(new Error(`${type} of ${name}: ${code}`), { code })
}
