/**
 * @module DNS block lists of addresses (RFC 5782): tests whether a list works, and looks addresses up. A list that does
 * not work must not be believed: a closed one may list every address.
 */
import { isIPv6 } from 'node:net'
import { toArpaName } from './message.ts'
import { isFailedAnswer, type Resolver } from './resolver.ts'

export type BlockListState =
  | { readonly kind: 'works' }
  /** The list refuses the queries of this resolver, such as a public or a very busy one. */
  | { readonly kind: 'refuses'; readonly code: string }
  /** DNS gives no answer. */
  | { readonly kind: 'silent' }
  /** It lists addresses that no list may contain, or not the one that every list must contain. */
  | { readonly kind: 'broken' }

export type Listing =
  | {
      readonly kind: 'listed'
      /** Addresses in 127.0.0.0/8, which name the reasons. */
      readonly codes: readonly string[]
      /** The list's explanation, often with a URL; untrusted. */
      readonly reason: string | undefined
    }
  | { readonly kind: 'not-listed' }
  /** DNS gives no answer, or the answer is not one of a list. */
  | { readonly kind: 'unknown' }

/** RFC 5782 §5: every list contains the first address and never the second. */
const TEST_ADDRESSES = {
  ipv4: { listed: '127.0.0.2', unlisted: '127.0.0.1' },
  ipv6: { listed: '::ffff:7f00:2', unlisted: '::ffff:7f00:1' },
} as const

/** Answers of lists that refuse a query: wrong name, public resolver, too many queries. No RFC defines them. */
const isRefusal = (code: string): boolean => code.startsWith('127.255.255.')
const isListingCode = (code: string): boolean => code.startsWith('127.') && !isRefusal(code)

/** @param list the zone of the list, such as `bl.example.com` */
export async function testBlockList(
  resolver: Resolver,
  list: string,
  family: keyof typeof TEST_ADDRESSES,
): Promise<BlockListState> {
  const { listed, unlisted } = TEST_ADDRESSES[family]
  const [present, absent] = await Promise.all([ask(resolver, list, listed), ask(resolver, list, unlisted)])
  const code = [...readCodes(present), ...readCodes(absent)].find(isRefusal)
  if (code !== undefined) return { kind: 'refuses', code }
  if (isFailedAnswer(present) || isFailedAnswer(absent)) return { kind: 'silent' }
  const works = readCodes(present).some(isListingCode) && readCodes(absent).length === 0
  return { kind: works ? 'works' : 'broken' }
}

/** Looks up an address in a list that was tested. */
export async function findListing(resolver: Resolver, list: string, ip: string): Promise<Listing> {
  const answer = await ask(resolver, list, ip)
  if (answer.kind === 'nxdomain' || answer.kind === 'nodata') return { kind: 'not-listed' }
  const codes = readCodes(answer)
  if (codes.length === 0 || !codes.every(isListingCode)) return { kind: 'unknown' }
  const text = await resolver.txt(toListName(list, ip))
  return { kind: 'listed', codes, reason: text.kind === 'ok' ? text.records[0] : undefined }
}

const ask = (resolver: Resolver, list: string, ip: string) => resolver.a(toListName(list, ip))

const readCodes = (answer: Awaited<ReturnType<typeof ask>>): readonly string[] =>
  answer.kind === 'ok' ? answer.records : []

/** The reversed address below the zone of the list, as for PTR records (RFC 5782 §2.1, §2.4). */
const toListName = (list: string, ip: string): string =>
  `${toArpaName(ip)?.replace(/\.(in-addr|ip6)\.arpa$/, '') ?? ip}.${list}`

/** Of an address, to choose its test. */
export const familyOf = (ip: string): keyof typeof TEST_ADDRESSES => (isIPv6(ip) ? 'ipv6' : 'ipv4')
