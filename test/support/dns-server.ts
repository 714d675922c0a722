/**
 * @module A real DNS server on 127.0.0.1 for tests: UDP and TCP on one port, answering from a plain object that a test
 * may change at any time. Also runs alone (`bun test/support/dns-server.ts ZONE.json` prints its address). Never
 * recurses and never listens elsewhere.
 */
import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import {
  type Answer,
  AUTHENTIC_DATA,
  AUTHORITATIVE_ANSWER,
  type DecodedPacket,
  decode,
  encode,
  type Packet,
  type Question,
  RECURSION_AVAILABLE,
  RECURSION_DESIRED,
  type TlsaData,
  TRUNCATED_RESPONSE,
} from 'dns-packet'

/**
 * Answers of a name or type instead of records. `SILENCE`: no answer. `MALFORMED`: the right id, then garbage.
 * `REFERRAL`: no records but the name servers of a zone.
 */
export type Fault = 'NXDOMAIN' | 'SERVFAIL' | 'REFUSED' | 'SILENCE' | 'MALFORMED' | 'WRONG_ID' | 'REFERRAL'

export interface NameEntry {
  A?: readonly string[] | Fault
  AAAA?: readonly string[] | Fault
  /** `exchange` '' or '.' makes a null MX. */
  MX?: readonly { preference: number; exchange: string }[] | Fault
  /** A record is a text or the list of its strings; a text over 255 bytes is split into strings. */
  TXT?: readonly (string | readonly string[])[] | Fault
  CNAME?: string
  NS?: readonly string[] | Fault
  PTR?: readonly string[] | Fault
  TLSA?: readonly TlsaData[] | Fault
  /** Whether DNSSEC protects the name: answers have the AD bit if the query had it. */
  secure?: boolean
  /** Seconds; default 300. */
  ttl?: number
  /** Sends empty answers with a wrong id, a wrong question and from a wrong port before the right one. */
  forgedFirst?: boolean
  /** Answers FORMERR to any query with EDNS, as servers older than RFC 6891 do. */
  refusesEdns?: boolean
  /** How TCP handles a query; UDP still answers. */
  tcp?: 'SILENCE' | 'CLOSE'
}

/** Names without a trailing dot. A missing name is NXDOMAIN, unless a name below it exists. */
export type Zone = Record<string, NameEntry | Fault>

export interface DnsServerOptions {
  /** TTL and minimum of the SOA in negative answers; default 60, null omits the SOA. */
  readonly negativeTtlSeconds?: number | null
  /** False: answers a CNAME alone, without the records of its target. */
  readonly followsCnames?: boolean
}

export interface ReceivedQuery {
  readonly name: string
  readonly type: string
  readonly transport: 'udp' | 'tcp'
}

export interface DnsServer extends AsyncDisposable {
  /** `127.0.0.1:port` */
  readonly address: string
  readonly port: number
  /** The zone being served; change it in place. */
  readonly zone: Zone
  /** All queries so far, in order of arrival. */
  readonly queries: ReceivedQuery[]
  /** Resolves once `count` queries have arrived in total. */
  received(count: number): Promise<void>
  close(): Promise<void>
}

type ZoneType = 'A' | 'AAAA' | 'MX' | 'TXT' | 'NS' | 'PTR' | 'TLSA'
const ZONE_TYPES: readonly string[] = ['A', 'AAAA', 'MX', 'TXT', 'NS', 'PTR', 'TLSA']
const RCODES = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, REFUSED: 5 } as const
const DEFAULT_TTL_SECONDS = 300
const PLAIN_UDP_BYTES = 512

/** Starts a server for `zone` on a free port of 127.0.0.1. */
export async function startDnsServer(zone: Zone, options: DnsServerOptions = {}): Promise<DnsServer> {
  const queries: ReceivedQuery[] = []
  const waiting = new Set<() => void>()
  const connections = new Set<Socket>()

  const record = (question: Question, transport: 'udp' | 'tcp') => {
    queries.push({ name: question.name.toLowerCase(), type: question.type, transport })
    for (const check of waiting) check()
  }

  const { udp, tcp } = await listenOnOnePort()
  // A second socket, so that forged answers come from a port that was not queried.
  const stranger = createSocket('udp4')

  udp.on('message', (message: Buffer, from: RemoteInfo) => {
    const query = readQuery(message)
    if (query === undefined) return
    record(query.question, 'udp')
    const send = (bytes: Buffer) => udp.send(bytes, from.port, from.address)
    const reply = replyTo(zone, query, options)
    if (reply.kind === 'silence') return
    if (reply.kind === 'garbage') return send(reply.bytes)
    if (reply.forgedFirst) {
      const forged = { ...reply.packet, answers: [] }
      send(encode({ ...forged, id: ((query.packet.id ?? 0) + 1) & 0xffff }))
      send(encode({ ...forged, questions: [{ name: 'forged.example', type: query.question.type }] }))
      stranger.send(encode(forged), from.port, from.address)
    }
    const bytes = encode(reply.packet)
    const limit = udpLimitBytes(query.packet)
    if (bytes.length <= limit) return send(bytes)
    send(encode({ ...reply.packet, flags: (reply.packet.flags ?? 0) | TRUNCATED_RESPONSE, answers: [] }))
  })

  tcp.on('connection', (socket) => {
    connections.add(socket)
    socket.on('close', () => connections.delete(socket))
    socket.on('error', () => {})
    let pending = Buffer.alloc(0)
    socket.on('data', (chunk: Buffer) => {
      pending = Buffer.concat([pending, chunk])
      while (pending.length >= 2 && pending.length >= 2 + pending.readUInt16BE(0)) {
        const end = 2 + pending.readUInt16BE(0)
        const query = readQuery(pending.subarray(2, end))
        pending = pending.subarray(end)
        if (query === undefined) continue
        record(query.question, 'tcp')
        const entry = findEntry(zone, query.question.name)
        const tcpBehaviour = typeof entry === 'object' ? entry.tcp : undefined
        if (tcpBehaviour === 'CLOSE') socket.destroy()
        const reply = replyTo(zone, query, options)
        if (tcpBehaviour !== undefined || reply.kind === 'silence') continue
        const bytes = reply.kind === 'garbage' ? reply.bytes : encode(reply.packet)
        const length = Buffer.alloc(2)
        length.writeUInt16BE(bytes.length)
        // Two writes: a client must not expect a message in one segment.
        socket.write(length)
        socket.write(bytes)
      }
    })
  })

  const port = udp.address().port
  const close = async () => {
    for (const socket of connections) socket.destroy()
    const closed = Promise.all([once(udp, 'close'), once(stranger, 'close'), once(tcp, 'close')])
    udp.close()
    stranger.close()
    tcp.close()
    await closed
  }
  return {
    address: `127.0.0.1:${port}`,
    port,
    zone,
    queries,
    close,
    [Symbol.asyncDispose]: close,
    received: (count) =>
      new Promise((resolve) => {
        const check = () => {
          if (queries.length < count) return
          waiting.delete(check)
          resolve()
        }
        waiting.add(check)
        check()
      }),
  }
}

async function listenOnOnePort(): Promise<{ udp: UdpSocket; tcp: Server }> {
  for (;;) {
    const tcp = createServer()
    tcp.listen(0, '127.0.0.1')
    await once(tcp, 'listening')
    const address = tcp.address()
    const udp = createSocket('udp4')
    const bound = await new Promise<boolean>((resolve) => {
      udp.once('error', () => resolve(false))
      udp.bind(typeof address === 'object' && address !== null ? address.port : 0, '127.0.0.1', () => resolve(true))
    })
    if (bound) {
      udp.removeAllListeners('error')
      // A client that has closed its socket causes ECONNREFUSED here, which is harmless.
      udp.on('error', () => {})
      return { udp, tcp }
    }
    // Another process has the UDP port of that number.
    tcp.close()
    await once(tcp, 'close')
  }
}

interface Query {
  readonly packet: DecodedPacket
  readonly question: Question
}

function readQuery(message: Buffer): Query | undefined {
  try {
    const packet = decode(message)
    const question = packet.questions?.[0]
    return question === undefined ? undefined : { packet, question }
  } catch {
    return undefined
  }
}

function udpLimitBytes(packet: DecodedPacket): number {
  const opt = packet.additionals?.find((a) => a.type === 'OPT')
  return opt?.type === 'OPT' ? Math.max(PLAIN_UDP_BYTES, opt.udpPayloadSize) : PLAIN_UDP_BYTES
}

type Reply =
  | { readonly kind: 'silence' }
  | { readonly kind: 'garbage'; readonly bytes: Buffer }
  | { readonly kind: 'packet'; readonly packet: Packet; readonly forgedFirst: boolean }

function findEntry(zone: Zone, name: string): NameEntry | Fault | undefined {
  const lowerName = name.toLowerCase()
  if (Object.hasOwn(zone, lowerName)) return zone[lowerName]
  const key = Object.keys(zone).find((k) => k.toLowerCase() === lowerName)
  if (key !== undefined) return zone[key]
  // RFC 8020: a name with names below it exists.
  return Object.keys(zone).some((k) => k.toLowerCase().endsWith(`.${lowerName}`)) ? {} : undefined
}

function replyTo(zone: Zone, { packet, question }: Query, options: DnsServerOptions): Reply {
  const answers: Answer[] = []
  const hasEdns = packet.additionals?.some((a) => a.type === 'OPT') === true
  const first = findEntry(zone, question.name)
  const forgedFirst = typeof first === 'object' && first.forgedFirst === true
  let isSecure = packet.flag_ad
  const finish = (rcode: number, negativeFor?: string): Reply => {
    const soa = negativeFor === undefined ? undefined : toSoa(negativeFor, options)
    return {
      kind: 'packet',
      forgedFirst,
      packet: {
        type: 'response',
        id: packet.id,
        flags: rcode | AUTHORITATIVE_ANSWER | RECURSION_AVAILABLE | RECURSION_DESIRED | (isSecure ? AUTHENTIC_DATA : 0),
        questions: [question],
        answers,
        authorities: soa === undefined ? [] : [soa],
        additionals: hasEdns && rcode !== RCODES.FORMERR ? [createEdns()] : [],
      },
    }
  }

  let name = question.name
  for (let links = 0; links < 20; links++) {
    const entry = findEntry(zone, name)
    if (entry === undefined) return finish(RCODES.NXDOMAIN, name)
    if (typeof entry === 'string') return toFaultyReply(entry, packet, finish, name)
    if (entry.refusesEdns && hasEdns) return finish(RCODES.FORMERR)
    if (!entry.secure) isSecure = false
    const ttl = entry.ttl ?? DEFAULT_TTL_SECONDS
    if (entry.CNAME !== undefined) {
      answers.push({ name, type: 'CNAME', ttl, data: entry.CNAME })
      if (question.type === 'CNAME' || options.followsCnames === false) return finish(RCODES.NOERROR)
      name = entry.CNAME
      continue
    }
    const type = question.type
    const records = ZONE_TYPES.includes(type) ? entry[type as ZoneType] : undefined
    if (typeof records === 'string') return toFaultyReply(records, packet, finish, name)
    for (const data of records ?? []) answers.push(toAnswer(name, type as ZoneType, ttl, data))
    return finish(RCODES.NOERROR, records === undefined || records.length === 0 ? name : undefined)
  }
  return finish(RCODES.NOERROR)
}

function toFaultyReply(
  fault: Fault,
  packet: DecodedPacket,
  finish: (rcode: number, negativeFor?: string) => Reply,
  name: string,
): Reply {
  switch (fault) {
    case 'SILENCE':
      return { kind: 'silence' }
    case 'MALFORMED': {
      const bytes = Buffer.alloc(40, 0xff)
      bytes.writeUInt16BE(packet.id ?? 0, 0)
      bytes.writeUInt16BE(0x8180, 2)
      return { kind: 'garbage', bytes }
    }
    case 'WRONG_ID': {
      const reply = finish(RCODES.NOERROR)
      if (reply.kind !== 'packet') return reply
      return { ...reply, packet: { ...reply.packet, id: ((packet.id ?? 0) + 1) & 0xffff } }
    }
    case 'REFERRAL': {
      const reply = finish(RCODES.NOERROR)
      if (reply.kind !== 'packet') return reply
      const authorities: Answer[] = [{ name, type: 'NS', ttl: DEFAULT_TTL_SECONDS, data: 'ns.invalid' }]
      const flags = (reply.packet.flags ?? 0) & ~AUTHORITATIVE_ANSWER
      return { ...reply, packet: { ...reply.packet, flags, authorities } }
    }
    default:
      return finish(RCODES[fault], fault === 'NXDOMAIN' ? name : undefined)
  }
}

function toAnswer(name: string, type: ZoneType, ttl: number, data: unknown): Answer {
  switch (type) {
    case 'MX': {
      const mx = data as { preference: number; exchange: string }
      return { name, type, ttl, data: { preference: mx.preference, exchange: mx.exchange || '.' } }
    }
    case 'TLSA':
      return { name, type, ttl, data: data as TlsaData }
    case 'TXT':
      return { name, type, ttl, data: typeof data === 'string' ? splitStrings(data) : [...(data as string[])] }
    default:
      return { name, type, ttl, data: data as string }
  }
}

function splitStrings(text: string): Buffer[] {
  const bytes = Buffer.from(text)
  const strings = [bytes.subarray(0, 255)]
  for (let at = 255; at < bytes.length; at += 255) strings.push(bytes.subarray(at, at + 255))
  return strings
}

function toSoa(name: string, options: DnsServerOptions): Answer | undefined {
  const ttl = options.negativeTtlSeconds === undefined ? 60 : options.negativeTtlSeconds
  if (ttl === null) return undefined
  const owner = name.split('.').slice(-2).join('.')
  const data = { mname: 'ns.invalid', rname: 'hostmaster.invalid', serial: 1, refresh: 1, retry: 1, expire: 1 }
  return { name: owner, type: 'SOA', ttl, data: { ...data, minimum: ttl } }
}

const createEdns = (): Answer => ({
  name: '.',
  type: 'OPT',
  udpPayloadSize: 1232,
  extendedRcode: 0,
  ednsVersion: 0,
  flags: 0,
  flag_do: false,
  options: [],
})

if (import.meta.main) {
  const [file] = process.argv.slice(2)
  if (file === undefined) {
    console.error('usage: bun test/support/dns-server.ts ZONE.json')
    process.exit(2)
  }
  const server = await startDnsServer(JSON.parse(readFileSync(file, 'utf8')) as Zone)
  console.log(server.address)
}

/** Gives each domain its own host, all at 127.0.0.1. */
export const ownHosts = (...domains: readonly string[]): Zone =>
  Object.fromEntries(domains.map((domain) => [domain, { A: ['127.0.0.1'] }]))

/** Domains that share one mail host at 127.0.0.1. */
export const sharedHost = (...domains: readonly string[]): Zone => ({
  ...Object.fromEntries(domains.map((domain) => [domain, { MX: [{ preference: 10, exchange: 'mx.shared.test' }] }])),
  'mx.shared.test': { A: ['127.0.0.1'] },
})
