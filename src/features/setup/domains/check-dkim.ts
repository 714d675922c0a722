/** @module Checks the record of a DKIM key, which must publish our key (RFC 6376 §3.6.1, RFC 8463 §4). */
import { parseDkimRecord } from '#protocols/dkim/keys.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'
import * as result from './check-result.ts'
import { type DkimPublicKey, formatDkimValue, toDkimHost } from './dns-records.ts'

export async function checkDkim(resolver: Resolver, domain: string, ours: DkimPublicKey): Promise<result.Check> {
  const host = toDkimHost(domain, ours)
  const texts = result.toRecordsOrCheck(await resolver.txt(host), 'DKIM key (TXT)', host)
  if (result.isCheck(texts)) return texts
  const advice = result.adviseTxt(host, formatDkimValue(ours))
  const keys = texts.filter((text) => parseTags(result.removeQuoting(text)).has('p'))
  const [record = texts[0]] = keys
  if (record === undefined) {
    const isOurs = (text: string) => parseTags(result.removeQuoting(text)).get('p') === ours.publicKey
    const hint = await result.findAbsenceHint(resolver, domain, host, (name) => resolver.txt(name), isOurs)
    return result.missing(`There is no DKIM key at ${host}.`, hint, advice)
  }
  if (keys.length > 1) {
    return result.wrong(
      `There are ${keys.length} DKIM keys at ${host}, and receivers may use any of them.`,
      `Remove the others and keep the one with the value ${formatDkimValue(ours)}`,
    )
  }
  const problem = findProblem(record, ours)
  return problem === undefined
    ? result.verified(`The DKIM key at ${host} is ours.`)
    : result.wrong(`The DKIM key at ${host} is ${result.quoteValue(record)}, which ${problem}.`, advice)
}

/** The problem with the key record, as the end of a sentence; undefined when there is none. */
function findProblem(record: string, { publicKey: ours, type }: DkimPublicKey): string | undefined {
  const quoting = result.findQuotingProblem(record)
  if (quoting !== undefined) return quoting
  const parsed = parseDkimRecord(record)
  if (parsed.kind === 'invalid') return `is not valid: ${parsed.reason.replace(/\.$/, '')}`
  const { tags } = parsed
  const key = tags.get('p') ?? ''
  if (key !== '' && key !== ours && ours.startsWith(key)) {
    return `is cut off after ${key.length} of ${ours.length} characters; it must be one record, which the DNS provider splits into strings itself or wants as several strings of at most 255 characters`
  }
  if (key !== ours) return 'is a different key'
  const allows = (tag: string, ...values: readonly string[]): boolean =>
    tags
      .get(tag)
      ?.split(':')
      .some((value) => values.includes(value.trim())) ?? true
  // RFC 6376 §3.6.1: without k=, the key is RSA.
  return (tags.get('k') ?? 'rsa') === type && allows('h', 'sha256') && allows('s', '*', 'email')
    ? undefined
    : 'has another type (k=), or does not allow sha256 (h=) or email (s=)'
}

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
