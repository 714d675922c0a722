/** @module Checks the record of a DKIM key, which must publish our key (RFC 6376 §3.6.1, RFC 8463 §4). */
import { parseDkimRecord } from '#protocols/dkim/keys.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'
import {
  adviseTxt,
  type Check,
  findAbsenceHint,
  hasRecord,
  isCheck,
  missing,
  quoteValue,
  removeQuoting,
  toRecordsOrCheck,
  verified,
  wrong,
} from './check-result.ts'
import { type DkimPublicKey, formatDkimValue, toDkimHost } from './dns-records.ts'

export async function checkDkim(resolver: Resolver, domain: string, ours: DkimPublicKey): Promise<Check> {
  const host = toDkimHost(domain, ours)
  const texts = toRecordsOrCheck(await resolver.txt(host), 'DKIM key (TXT)', host)
  if (isCheck(texts)) return texts
  const advice = adviseTxt(host, formatDkimValue(ours))
  if (texts.length === 0) {
    // Few publish the optional key, so each check would look in vain for it elsewhere.
    const hint = ours.type === 'rsa' ? await findMissingKeyHint(resolver, domain, ours) : ''
    return missing(`There is no DKIM key at ${host}.`, hint, advice)
  }
  const keys = texts.filter((text) => parseTags(removeQuoting(text)).has('p'))
  const [key] = keys
  if (key === undefined) {
    return wrong(`The TXT record at ${host} is ${quoteValue(texts[0] ?? '')}, which holds no DKIM key (no p=).`, advice)
  }
  if (keys.length > 1) {
    return wrong(
      `There are ${keys.length} DKIM keys at ${host}, and receivers may use any of them.`,
      `Remove the others and keep the one with the value ${formatDkimValue(ours)}`,
    )
  }
  const problem = findProblem(key, ours)
  if (problem !== undefined) return wrong(`The DKIM key at ${host} ${problem}.`, advice)
  const testing = parseTags(key).get('t')?.split(':').includes('y')
  return verified(
    `The DKIM key at ${host} is ours.${testing ? ' Remove its t=y, which marks it as a test, because some receivers then ignore signatures.' : ''}`,
  )
}

/** The problem with the key record, as the end of a sentence; undefined when there is none. */
function findProblem(record: string, { publicKey: ours, type: ourType }: DkimPublicKey): string | undefined {
  const bare = removeQuoting(record)
  const tags = parseTags(bare)
  const key = parseKey(bare)
  if (key !== ours) {
    if (key === '') return 'is revoked (its p= is empty)'
    if (ours.startsWith(key)) {
      return `is cut off after ${key.length} of ${ours.length} characters; it must be one record, which the DNS provider splits into strings itself or wants as several strings of at most 255 characters`
    }
    return `is a different key: p= begins with ${quoteValue(key.slice(0, 24))} and ends with ${quoteValue(key.slice(-12))}, ours begins with ${quoteValue(ours.slice(0, 24))} and ends with ${quoteValue(ours.slice(-12))}`
  }
  if (bare !== record.trim()) return 'has quotes or backslashes inside its value; enter the value without them'
  // RFC 6376 §3.6.1: v= is optional, but must come first and be DKIM1.
  if (tags.has('v') && ([...tags.keys()][0] !== 'v' || tags.get('v') !== 'DKIM1')) {
    return `is not valid: it has v=${tags.get('v')}, but v= must come first and be DKIM1`
  }
  // Receivers parse the whole tag list: a duplicate or malformed tag makes it invalid (RFC 6376 §3.2).
  const parsed = parseDkimRecord(bare)
  if (parsed.kind === 'invalid') return `is not valid: ${parsed.reason.replace(/\.$/, '')}`
  // RFC 6376 §3.6.1: without k=, the key is RSA.
  const type = tags.get('k') ?? 'rsa'
  if (type !== ourType) return tags.has('k') ? `has k=${type}, but our key is k=${ourType}` : `lacks k=${ourType}`
  const hashes = splitValues(tags.get('h'))
  if (hashes.length > 0 && !hashes.includes('sha256')) return `allows h=${tags.get('h')} only, but we sign with sha256`
  const services = splitValues(tags.get('s'))
  if (services.length > 0 && !services.includes('*') && !services.includes('email')) {
    return `has s=${tags.get('s')}, which does not allow its use for email`
  }
  return undefined
}

const splitValues = (value: string | undefined): string[] =>
  value === undefined ? [] : value.split(':').map((v) => v.trim())

/** The tags of a tag list (RFC 6376 §3.2) in order; the first of each name counts. */
export function parseTags(text: string): Map<string, string> {
  const tags = new Map<string, string>()
  for (const part of text.split(';')) {
    const at = part.indexOf('=')
    const name = part.slice(0, Math.max(at, 0)).trim()
    if (name !== '' && !tags.has(name)) tags.set(name, part.slice(at + 1).trim())
  }
  return tags
}

/** RFC 6376 §3.6.1: white space inside the base64 of p= is ignored. */
const parseKey = (text: string): string => (parseTags(text).get('p') ?? '').replace(/\s/g, '')

async function findMissingKeyHint(resolver: Resolver, domain: string, key: DkimPublicKey): Promise<string> {
  const isOurs = async (name: string) =>
    hasRecord(await resolver.txt(name), (text) => parseKey(removeQuoting(text)) === key.publicKey)
  const { selector } = key
  for (const name of [`${selector}.${domain}`, `_domainkey.${domain}`, domain]) {
    if (await isOurs(name))
      return `It was found at ${name} instead: the name must be ${selector}._domainkey below ${domain}.`
  }
  return findAbsenceHint(resolver, domain, toDkimHost(domain, key), isOurs)
}
