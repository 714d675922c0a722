/**
 * @module Encodes DNS queries and decodes responses (RFC 1035 §4, EDNS0 of RFC 6891), with dns-packet. Opens no socket.
 */
import { isIPv4, isIPv6 } from 'node:net'
import {
  AUTHENTIC_DATA,
  type DecodedPacket,
  decode,
  encode,
  type Answer as PacketAnswer,
  RECURSION_DESIRED,
} from 'dns-packet'
import { parseIpv6Groups } from './special-addresses.ts'

export type QueryType = 'A' | 'AAAA' | 'MX' | 'TXT' | 'CNAME' | 'PTR' | 'NS' | 'TLSA'

export interface Question {
  /** The name, normalised by `normaliseName`. */
  readonly name: string
  readonly type: QueryType
  /** Asks the server whether it validated its answer with DNSSEC (RFC 6840 §5.7). */
  readonly asksAuthenticity?: boolean
}

/** The size of a UDP response that no path fragments (DNS flag day 2020). */
const UDP_PAYLOAD_BYTES = 1232
const MAX_NAME_OCTETS = 253
const MAX_LABEL_OCTETS = 63

/**
 * Returns the name in lower case, without the trailing dot; undefined if it cannot exist in DNS (RFC 1035 §2.3.4) or is
 * not ASCII.
 */
export function normaliseName(name: string): string | undefined {
  if (name.length > MAX_NAME_OCTETS + 1) return undefined
  const bare = (name.endsWith('.') ? name.slice(0, -1) : name).toLowerCase()
  if (bare.length > MAX_NAME_OCTETS || !/^[\x21-\x7e]+$/.test(bare)) return undefined
  return bare.split('.').every((label) => label !== '' && label.length <= MAX_LABEL_OCTETS) ? bare : undefined
}

/**
 * Returns the name of an address's PTR record (RFC 1035 §3.5, RFC 3596 §2.5); undefined when `ip` is not an address.
 */
export function toArpaName(ip: string): string | undefined {
  if (isIPv4(ip)) return `${ip.split('.').reverse().join('.')}.in-addr.arpa`
  if (!isIPv6(ip)) return undefined
  const [bare = ''] = ip.split('%')
  const nibbles = parseIpv6Groups(bare)
    .map((group) => group.toString(16).padStart(4, '0'))
    .join('')
  return `${[...nibbles].reverse().join('.')}.ip6.arpa`
}

/** @param edns false for servers older than RFC 6891, which answer FORMERR to a query with EDNS */
export function encodeQuery(question: Question, id: number, edns: boolean): Buffer {
  return encode({
    type: 'query',
    id,
    flags: RECURSION_DESIRED | (question.asksAuthenticity ? AUTHENTIC_DATA : 0),
    questions: [{ name: question.name, type: question.type, class: 'IN' }],
    additionals: edns ? [EDNS] : [],
  })
}

const EDNS: PacketAnswer = {
  name: '.',
  type: 'OPT',
  udpPayloadSize: UDP_PAYLOAD_BYTES,
  extendedRcode: 0,
  ednsVersion: 0,
  flags: 0,
  flag_do: false,
  options: [],
}

export interface AnswerRecord {
  /** Owner name in lower case. */
  readonly name: string
  readonly type: string
  readonly ttlSeconds: number
  readonly data: unknown
}

/** A referral counts as `servfail`: the server itself has no answer, and a stub resolver cannot follow the referral. */
export type Rcode = 'noerror' | 'nxdomain' | 'servfail' | 'refused' | 'unsupported'

export interface Response {
  readonly rcode: Rcode
  readonly truncated: boolean
  /** Whether the server says that it validated the answer with DNSSEC: the AD bit (RFC 4035 §3.2.3). */
  readonly isAuthentic: boolean
  readonly answers: readonly AnswerRecord[]
  /** From the SOA of a negative answer: the owner of the SOA, and how long the absence may be cached (RFC 2308 §5). */
  readonly soa: { readonly owner: string; readonly ttlSeconds: number } | undefined
}

/**
 * Decodes a message received for a query.
 * @returns `other` when the message does not answer the query (it has another id or question, so it is forged or late
 * and must be ignored), `malformed` when it has the right id but cannot be read
 */
export function decodeResponse(
  bytes: Buffer,
  question: Question,
  id: number,
): { kind: 'response'; response: Response } | { kind: 'other' } | { kind: 'malformed' } {
  if (bytes.length < 12 || bytes.readUInt16BE(0) !== id || (bytes.readUInt16BE(2) & 0x8000) === 0) {
    return { kind: 'other' }
  }
  let packet: ReturnType<typeof decode>
  try {
    packet = decode(bytes)
  } catch {
    return { kind: 'malformed' }
  }
  const flags = bytes.readUInt16BE(2)
  const reportedRcode = toRcode(flags & 0xf, packet.additionals ?? [])
  const rcode = reportedRcode === 'noerror' && isReferral(packet) ? 'servfail' : reportedRcode
  const echoedQuestion = packet.questions?.[0]
  // Some servers omit the question from an error response; then only the error code is used.
  if (echoedQuestion === undefined && rcode !== 'noerror' && rcode !== 'nxdomain') {
    return { kind: 'response', response: { rcode, truncated: false, isAuthentic: false, answers: [], soa: undefined } }
  }
  if (
    echoedQuestion === undefined ||
    echoedQuestion.name.toLowerCase() !== question.name ||
    echoedQuestion.type !== question.type
  ) {
    return { kind: 'other' }
  }
  return {
    kind: 'response',
    response: {
      rcode,
      truncated: packet.flag_tc,
      isAuthentic: (flags & AUTHENTIC_DATA) !== 0,
      answers: (packet.answers ?? []).flatMap((a) => (a.type === 'OPT' ? [] : [toAnswerRecord(a)])),
      soa: findSoa(packet.authorities ?? []),
    },
  }
}

/**
 * RFC 2308 §2.2: a referral has no answer, but NS records and no SOA; a negative answer would have a SOA or no NS
 * records. Broken resolvers and lame servers send referrals.
 */
function isReferral({ answers = [], authorities = [] }: DecodedPacket): boolean {
  if (answers.length > 0) return false
  return authorities.some(({ type }) => type === 'NS') && authorities.every(({ type }) => type !== 'SOA')
}

function toRcode(low: number, additionals: readonly PacketAnswer[]): Rcode {
  const opt = additionals.find((a) => a.type === 'OPT')
  const high = opt?.type === 'OPT' ? opt.extendedRcode : 0
  switch (high * 16 + low) {
    case 0:
      return 'noerror'
    case 3:
      return 'nxdomain'
    case 5:
      return 'refused'
    case 1: // Servers without EDNS answer FORMERR, NOTIMP or BADVERS (RFC 6891 §7).
    case 4:
    case 16:
      return 'unsupported'
    default:
      return 'servfail'
  }
}

// RFC 2181 §8: a TTL with the top bit set counts as zero.
const normaliseTtl = (ttl: number | undefined): number => (ttl === undefined || ttl > 0x7fffffff ? 0 : ttl)

const toAnswerRecord = (answer: Exclude<PacketAnswer, { type: 'OPT' }>): AnswerRecord => ({
  name: answer.name.toLowerCase(),
  type: answer.type,
  ttlSeconds: normaliseTtl('ttl' in answer ? answer.ttl : 0),
  data: 'data' in answer ? answer.data : undefined,
})

function findSoa(authorities: readonly PacketAnswer[]): Response['soa'] {
  for (const authority of authorities) {
    if (authority.type !== 'SOA') continue
    const ttlSeconds = Math.min(normaliseTtl(authority.ttl), normaliseTtl(authority.data.minimum))
    return { owner: authority.name.toLowerCase(), ttlSeconds }
  }
  return undefined
}
