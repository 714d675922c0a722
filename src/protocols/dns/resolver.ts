/**
 * @module A stub resolver (RFC 1034 §5.3.1). It distinguishes "no such record", "no such name" and "no answer", because
 * mail delivery depends on the difference. Caches, merges identical questions in flight, follows CNAMEs and tries the
 * next server when one fails. Uses neither node:dns nor the system's resolver.
 */
import type { Clock } from '#platform/time/clock.ts'
import type { TlsaRecord } from '../smtp/dane.ts'
import { createTtlCache } from './cache.ts'
import { type ExchangeResult, exchange, type ServerAddress } from './exchange.ts'
import {
  type AnswerRecord,
  normaliseName,
  type QueryType,
  type Question,
  type Response,
  toArpaName,
} from './message.ts'
import { parseServer } from './servers.ts'

/** A mail exchanger; `exchange` is in lower case without a trailing dot, and `''` for a null MX (RFC 7505). */
export interface MxRecord {
  readonly preference: number
  readonly exchange: string
}

/** There is no usable answer; a later attempt may succeed. */
export interface FailedAnswer {
  /** `timeout` also covers servers that could not be reached. */
  readonly kind: 'servfail' | 'refused' | 'timeout'
}

export type Answer<T> =
  | {
      readonly kind: 'ok'
      readonly records: readonly T[]
      readonly ttlSeconds: number
      /** Present when DNSSEC protects the answer and every alias that led to it; see `trustsAuthenticity`. */
      readonly isSecure?: true
    }
  /** The name exists but has no record of this type. */
  | { readonly kind: 'nodata' }
  | { readonly kind: 'nxdomain' }
  | FailedAnswer
  /** The chain of CNAMEs forms a loop, or is longer than the resolver follows. */
  | { readonly kind: 'loop' }

/** Queries DNS. Names are ASCII (A-labels). A name that cannot exist in DNS is `nxdomain` without a query. */
export interface Resolver extends Disposable {
  mx(name: string): Promise<Answer<MxRecord>>
  a(name: string): Promise<Answer<string>>
  aaaa(name: string): Promise<Answer<string>>
  /** Returns one text per record: its strings joined without a separator (RFC 7208 §3.3, RFC 6376 §3.6.2.2). */
  txt(name: string): Promise<Answer<string>>
  /** Returns the target of the CNAME at `name`, without following it. */
  cname(name: string): Promise<Answer<string>>
  /** Returns the name servers of the zone whose apex is `name`, without following a CNAME, which no apex has. */
  ns(name: string): Promise<Answer<string>>
  /** Returns the host names of an IP address, or of a name below `in-addr.arpa` or `ip6.arpa`. */
  ptr(ipOrArpaName: string): Promise<Answer<string>>
  /** Ends queries in flight with `timeout`; later calls return `timeout`. */
  close(): void
}

/**
 * A resolver that knows which answers DNSSEC protects, if it was created with `trustsAuthenticity`, and can tell whether
 * its own servers or the name caused a failure.
 */
export interface DnsClient extends Resolver {
  /** Returns the certificate associations of a server (RFC 6698 §3), such as at `_25._tcp.mx.example.com`. */
  tlsa(name: string): Promise<Answer<TlsaRecord>>
  /**
   * Whether the servers validate DNSSEC now: they mark the name servers of the root as authentic, and answer nothing
   * for a name whose signatures are wrong on purpose. Does not use the cache.
   */
  isValidating(): Promise<boolean>
  /**
   * Whether the servers respond at all now. Asks for the root, which every server knows, and does not use the cache.
   * REFUSED counts as a response, SERVFAIL does not.
   */
  isAnswering(): Promise<boolean>
}

/**
 * Returns whether an answer leaves it unknown which records the name has, so that the question must be asked again
 * later.
 */
export const isFailedAnswer = (answer: { readonly kind: string }): answer is FailedAnswer =>
  answer.kind === 'servfail' || answer.kind === 'refused' || answer.kind === 'timeout'

export interface ResolverOptions {
  /** DNS servers in order of preference: `192.0.2.1`, `192.0.2.1:53`, `[2001:db8::1]:53`. */
  readonly servers: readonly string[]
  readonly clock: Clock
  /** Time limit for one question to one server; default 5,000. */
  readonly timeoutMs?: number
  /** How many times the servers are asked in turn; default 2. */
  readonly attempts?: number
  /** Maximum number of exchanges in flight; default 256. Further exchanges wait. */
  readonly maxConcurrentExchanges?: number
  /** Returns a random integer of at least 16 bits, which must be unpredictable (RFC 5452 §9.1). */
  readonly randomId: () => number
  /** Maximum number of cached answers; default 10,000; 0 disables the cache. */
  readonly cacheEntries?: number
  /**
   * Whether to believe the servers, and the path to them, about which answers DNSSEC protects; default false. Anyone on
   * an untrusted path can forge the AD bit (RFC 7672 §2.1).
   */
  readonly trustsAuthenticity?: boolean
}

/**
 * A name that its owner signs wrongly, so that everyone can test whether a server validates. If it is no longer so, the
 * test fails and DANE is off.
 */
const BOGUS_NAME = 'dnssec-failed.org'
const MAX_CNAME_CHAIN_LENGTH = 8
const MAX_RECORDS = 500
const MAX_CONCURRENT_EXCHANGES = 256
/** Maximum time for which any answer is cached. */
const MAX_TTL_SECONDS = 3600
const FAILURE_TTL_SECONDS = 5
const MAX_NEGATIVE_TTL_SECONDS = 300
/** RFC 2308 §5 forbids caching a negative answer without a SOA; so short a time only absorbs a burst of questions. */
const NEGATIVE_TTL_WITHOUT_SOA_SECONDS = 5
/** Limits the memory that hostile zones with huge records can make the cache use. */
const CACHE_WEIGHT_BYTES = 16 * 1024 * 1024

interface LookupResult {
  readonly answer: Answer<unknown>
  /** How long the answer may be cached. */
  readonly cacheSeconds: number
  readonly weight: number
}

/** Opens no socket until the first question; `close` ends the queries in flight. */
export class StubResolver implements DnsClient {
  readonly #options: ResolverOptions
  readonly #servers: readonly ServerAddress[]
  readonly #cache: ReturnType<typeof createTtlCache<Answer<unknown>>>
  readonly #inFlight = new Map<string, Promise<Answer<unknown>>>()
  readonly #closing = new AbortController()
  readonly #limit: ReturnType<typeof createConcurrencyLimit>
  #probe: Promise<boolean> | undefined
  readonly mx = (name: string) => this.#resolve(name, 'MX', parseMx)
  readonly a = (name: string) => this.#resolve(name, 'A', parseText)
  readonly aaaa = (name: string) => this.#resolve(name, 'AAAA', parseText)
  readonly txt = (name: string) => this.#resolve(name, 'TXT', parseStrings)
  readonly cname = (name: string) => this.#resolve(name, 'CNAME', parseName)
  readonly ns = (name: string) => this.#resolve(name, 'NS', parseName)
  readonly ptr = (ip: string) => this.#resolve(toArpaName(ip) ?? ip, 'PTR', parseName)
  readonly tlsa = (name: string) => this.#resolve(name, 'TLSA', parseTlsa)

  /** @throws TypeError when `servers` is empty or contains an invalid address */
  constructor(options: ResolverOptions) {
    this.#options = options
    this.#servers = options.servers.map(parseServer)
    if (this.#servers.length === 0) throw new TypeError('servers must name at least one DNS server')
    this.#cache = createTtlCache<Answer<unknown>>(options.clock, {
      maxEntries: options.cacheEntries ?? 10_000,
      maxWeight: CACHE_WEIGHT_BYTES,
    })
    this.#limit = createConcurrencyLimit(options.maxConcurrentExchanges ?? MAX_CONCURRENT_EXCHANGES)
  }

  async isValidating(): Promise<boolean> {
    if (!this.#options.trustsAuthenticity) return false
    const root = await this.#ask({ name: '.', type: 'NS' })
    if (typeof root === 'string' || root.rcode !== 'noerror' || !root.isAuthentic) return false
    const bogus = await this.#ask({ name: BOGUS_NAME, type: 'A' })
    return bogus === 'servfail'
  }

  async #askServer(server: ServerAddress, question: Question): Promise<ExchangeResult> {
    const { clock, randomId, timeoutMs = 5000, trustsAuthenticity: asksAuthenticity = false } = this.#options
    const { signal } = this.#closing
    const options = { clock, timeoutMs, randomId, signal }
    return this.#limit(async () =>
      signal.aborted ? { kind: 'broken' } : exchange(server, { ...question, asksAuthenticity }, options),
    )
  }

  /** Returns the first usable response of any server; if there is none, the most specific failure. */
  async #ask(question: Question): Promise<Response | 'servfail' | 'refused' | 'timeout' | 'unasked'> {
    const { attempts = 2 } = this.#options
    let worthAsking = new Set(this.#servers)
    let failure: 'servfail' | 'refused' | 'timeout' | 'unasked' = 'timeout'
    for (let round = 0; round < attempts && worthAsking.size > 0; round++) {
      for (const server of worthAsking) {
        const result = await this.#askServer(server, question)
        if (result.kind === 'unasked') failure = 'unasked'
        if (result.kind !== 'response') continue
        const { rcode } = result.response
        if (rcode === 'noerror' || rcode === 'nxdomain') return result.response
        // A server that responded with a failure would fail again, so the next round asks only the servers that gave no
        // response.
        worthAsking = new Set([...worthAsking].filter((s) => s !== server))
        if (rcode !== 'refused') failure = 'servfail'
        else if (failure === 'timeout' || failure === 'unasked') failure = 'refused'
      }
    }
    return failure
  }

  async #lookUp<T>(question: Question, parse: (data: unknown) => T | undefined): Promise<LookupResult> {
    let name = question.name
    let ttlSeconds = MAX_TTL_SECONDS
    let isSecure = this.#options.trustsAuthenticity === true
    const seen = new Set([name])
    for (;;) {
      const response = await this.#ask({ name, type: question.type })
      // Not cached, because the fault lies in this process and not in the servers, and may end soon.
      if (response === 'unasked') return toLookupResult({ kind: 'timeout' }, 0)
      if (typeof response === 'string') return toLookupResult({ kind: response }, FAILURE_TTL_SECONDS)
      if (!response.isAuthentic) isSecure = false
      const queriedName = name
      for (;;) {
        const records = selectRecords(response.answers, name, question.type)
        if (records.length > 0) {
          ttlSeconds = Math.min(ttlSeconds, ...records.map((r) => r.ttlSeconds))
          const values = records.flatMap((r) => parse(r.data) ?? [])
          if (values.length === 0) return toLookupResult({ kind: 'servfail' }, FAILURE_TTL_SECONDS)
          const answer = { kind: 'ok', records: values, ttlSeconds, ...(isSecure && { isSecure }) } as const
          return toLookupResult(answer, ttlSeconds, estimateWeight(values))
        }
        if (question.type === 'NS') break
        const alias = selectRecords(response.answers, name, 'CNAME')[0]
        const target = typeof alias?.data === 'string' ? normaliseName(alias.data) : undefined
        if (alias === undefined || target === undefined) break
        ttlSeconds = Math.min(ttlSeconds, alias.ttlSeconds)
        if (seen.has(target) || seen.size > MAX_CNAME_CHAIN_LENGTH)
          return toLookupResult({ kind: 'loop' }, FAILURE_TTL_SECONDS)
        seen.add(target)
        name = target
      }
      // RFC 6604 §3: the rcode applies to the last name of the chain.
      if (response.rcode === 'nxdomain') {
        return toLookupResult({ kind: 'nxdomain' }, Math.min(ttlSeconds, getNegativeTtlSeconds(response)))
      }
      if (name === queriedName || isAtOrBelow(name, response.soa?.owner)) {
        return toLookupResult({ kind: 'nodata' }, Math.min(ttlSeconds, getNegativeTtlSeconds(response)))
      }
      // The response does not cover the last name of the chain, so the next round of the loop asks for that name.
    }
  }

  async #resolve<T>(name: string, type: QueryType, parse: (data: unknown) => T | undefined): Promise<Answer<T>> {
    const normalised = normaliseName(name)
    if (normalised === undefined) return { kind: 'nxdomain' }
    if (this.#closing.signal.aborted) return { kind: 'timeout' }
    const key = `${type} ${normalised}`
    const cached = this.#cache.get(key)
    // The cast is safe: each query type has one parser, so a cached answer for a type comes from that parser.
    if (cached !== undefined) return withRemainingTtl(cached.value as Answer<T>, cached.remainingSeconds)
    const running = this.#inFlight.get(key)
    if (running !== undefined) return running as Promise<Answer<T>>
    const started = this.#lookUp({ name: normalised, type }, parse)
      .then(({ answer, cacheSeconds, weight }) => {
        if (!this.#closing.signal.aborted)
          this.#cache.set(key, answer, cacheSeconds, weight + key.length + ENTRY_OVERHEAD_BYTES)
        return answer
      })
      .finally(() => this.#inFlight.delete(key))
    this.#inFlight.set(key, started)
    return started as Promise<Answer<T>>
  }

  isAnswering(): Promise<boolean> {
    this.#probe ??= this.#ask({ name: '.', type: 'NS' })
      .then((response) => response !== 'timeout' && response !== 'servfail')
      .finally(() => {
        this.#probe = undefined
      })
    return this.#probe
  }

  close(): void {
    this.#closing.abort()
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

const ENTRY_OVERHEAD_BYTES = 200

/** How long a negative answer is cached: as the zone's SOA says, but at most 300 s. */
const getNegativeTtlSeconds = ({ soa }: Response): number =>
  Math.min(soa?.ttlSeconds ?? NEGATIVE_TTL_WITHOUT_SOA_SECONDS, MAX_NEGATIVE_TTL_SECONDS)

const toLookupResult = (answer: Answer<unknown>, cacheSeconds: number, weight = 0): LookupResult => ({
  answer,
  cacheSeconds,
  weight,
})

const estimateWeight = (values: readonly unknown[]): number =>
  values.reduce<number>((sum, v) => sum + 50 + (typeof v === 'string' ? v.length : 100), 0)

const withRemainingTtl = <T>(answer: Answer<T>, remainingSeconds: number): Answer<T> =>
  answer.kind === 'ok' ? { ...answer, ttlSeconds: remainingSeconds } : answer

const selectRecords = (answers: readonly AnswerRecord[], name: string, type: string): AnswerRecord[] =>
  answers.filter((a) => a.type === type && a.name === name).slice(0, MAX_RECORDS)

const isAtOrBelow = (name: string, owner: string | undefined): boolean =>
  owner !== undefined && (owner === '.' || name === owner || name.endsWith(`.${owner}`))

const parseText = (data: unknown): string | undefined => (typeof data === 'string' ? data : undefined)

const parseName = (data: unknown): string | undefined =>
  typeof data === 'string' ? data.toLowerCase().replace(/\.$/, '') : undefined

function parseMx(data: unknown): MxRecord | undefined {
  if (typeof data !== 'object' || data === null || !('exchange' in data)) return undefined
  const exchange = parseName(data.exchange)
  const preference = 'preference' in data && typeof data.preference === 'number' ? data.preference : 0
  return exchange === undefined ? undefined : { preference, exchange }
}

function parseTlsa(data: unknown): TlsaRecord | undefined {
  if (typeof data !== 'object' || data === null || !('certificate' in data)) return undefined
  const { usage, selector, matchingType, certificate } = data as Record<string, unknown>
  if (typeof usage !== 'number' || typeof selector !== 'number' || typeof matchingType !== 'number') return undefined
  return Buffer.isBuffer(certificate) ? { usage, selector, matchingType, data: certificate.toString('hex') } : undefined
}

function parseStrings(data: unknown): string | undefined {
  const parts = Array.isArray(data) ? data : [data]
  // Joined as bytes, because a character can be split between two strings.
  return parts.every((p) => Buffer.isBuffer(p)) ? Buffer.concat(parts).toString('utf8') : undefined
}

/** Returns a function that runs at most `max` tasks concurrently; the others wait in order of arrival. */
function createConcurrencyLimit(max: number): <T>(run: () => Promise<T>) => Promise<T> {
  let running = 0
  const waiting: (() => void)[] = []
  return async (run) => {
    if (running >= max) await new Promise<void>((acquire) => waiting.push(acquire))
    else running++
    try {
      return await run()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}
