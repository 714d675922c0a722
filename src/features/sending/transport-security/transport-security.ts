/**
 * @module What recipient domains and hosts demand of TLS: the MTA-STS policy of a domain, which is fetched and cached,
 * the TLSA records of its hosts, and what both demand of a session.
 */
import type { App } from '#features/core/app/app.ts'
import { storeNewest } from '#platform/bounded-map.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { FairPool } from '#platform/queue/fair-scheduler.ts'
import { days, hours, type Millis, minutes, seconds } from '#platform/units.ts'
import { isFailedAnswer } from '#protocols/dns/resolver.ts'
import { isUsableTlsa, shortenTlsa, type TlsaRecord } from '#protocols/smtp/dane.ts'
import { lookUpPolicyId, MAX_POLICY_BYTES, parseStsPolicy, type StsPolicy } from '#protocols/smtp/mta-sts.ts'

export interface StsFinding {
  /** A valid policy of mode `enforce` or `testing`. */
  readonly policy?: StsPolicy
}

interface KnownDomain {
  readonly id?: string
  readonly policy?: StsPolicy
  readonly fetchedAt: Millis
  readonly expiresAt: Millis
  /** When DNS was last asked for the policy's id. */
  readonly checkedAt: Millis
}

/** How often DNS is asked for the id, while a domain gets mail. RFC 8461 §3.3 allows a failed fetch as often. */
const CHECK_INTERVAL_MS = minutes(5)
/** How long a check counts when no valid policy is known; after it, mail waits for the next check. */
const MAX_UNCHECKED_MS = hours(1)
/** RFC 8461 §3.3 and §10.2: a policy is fetched again daily even if its id stays the same. */
const REFETCH_INTERVAL_MS = days(1)
/** It is fetched again so long before it ends, so that no mail has to wait: many policies last for a day. */
const REFETCH_BEFORE_MS = hours(1)
const FETCH_TIMEOUT_MS = seconds(10)
/** Fetches at the same time, over all domains. */
const MAX_CONCURRENT_FETCHES = 256
const MAX_CACHED_DOMAINS = 20_000
const MAX_STORED_POLICIES = 10_000

const sql = prepareStatements((db) => ({
  find: db.prepare<{ id: string; policy: string; fetchedAt: Millis; expiresAt: Millis }, [string, Millis]>(
    `SELECT policy_id AS id, policy, fetched_at AS fetchedAt, expires_at AS expiresAt FROM mta_sts_policies
     WHERE domain = ? AND expires_at > ?`,
  ),
  store: db.prepare<null, [string, string, string, Millis, Millis]>(
    `INSERT INTO mta_sts_policies (domain, policy_id, policy, fetched_at, expires_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (domain) DO UPDATE SET policy_id = excluded.policy_id, policy = excluded.policy,
       fetched_at = excluded.fetched_at, expires_at = excluded.expires_at`,
  ),
  // Removes expired policies first.
  purge: db.prepare<null, [number]>(
    `DELETE FROM mta_sts_policies WHERE domain IN (SELECT domain FROM mta_sts_policies
     ORDER BY expires_at LIMIT max(0, (SELECT count(*) FROM mta_sts_policies) - ?))`,
  ),
}))

export class StsPolicies {
  readonly #app: App
  /** The domain used longest ago comes first. */
  readonly #known = new Map<string, KnownDomain>()
  readonly #checks = new Map<string, Promise<void>>()
  /** Accounts take turns, so that one with many slow policy servers delays only itself. */
  readonly #fetches: FairPool

  /** With its colon, unless it is that of https. */
  readonly #port: string

  /** @param port of the servers of policies, for tests */
  constructor(app: App, port?: number) {
    this.#app = app
    this.#port = port === undefined ? '' : `:${port}`
    const overload = () => new Error('too many fetches of policies')
    this.#fetches = new FairPool({ clock: app.clock, concurrency: MAX_CONCURRENT_FETCHES, overload })
  }

  /**
   * Returns what is known about a domain, in A-labels and lower case; while nothing is, a promise that resolves when
   * something is. The promise never rejects, and resolves within about the time limits of DNS and the fetch.
   * @param owner the account that the time of a fetch is counted for
   */
  find(domain: string, owner: number): StsFinding | Promise<void> {
    const now = this.#app.clock.now()
    const known = this.#known.get(domain) ?? this.#load(domain, now)
    const policy = known && known.expiresAt > now ? known.policy : undefined
    // A check in the future was made under a wrong clock.
    const sinceCheckMs = known && known.checkedAt <= now ? now - known.checkedAt : Number.POSITIVE_INFINITY
    // Mail waits for the successor of a policy: it must not go unprotected until the next check.
    const hasEnded = known?.policy !== undefined && !policy
    if (!known || hasEnded || (!policy && sinceCheckMs > MAX_UNCHECKED_MS)) return this.#check(domain, known, owner)
    this.#cache(domain, known)
    if (sinceCheckMs >= CHECK_INTERVAL_MS) void this.#check(domain, known, owner)
    return policy && policy.mode !== 'none' ? { policy } : {}
  }

  #load(domain: string, now: Millis): KnownDomain | undefined {
    const stored = sql(this.#app.db).find.get(domain, now)
    if (!stored) return undefined
    return { ...stored, policy: JSON.parse(stored.policy) as StsPolicy, checkedAt: 0 }
  }

  #cache(domain: string, known: KnownDomain): void {
    storeNewest(this.#known, domain, known, MAX_CACHED_DOMAINS)
  }

  /** Checks for the current policy of a domain, once for all callers at the same time. */
  #check(domain: string, known: KnownDomain | undefined, owner: number): Promise<void> {
    const running = this.#checks.get(domain)
    if (running) return running
    const check = this.#lookUp(domain, known ?? UNKNOWN, owner)
      .catch((error: unknown): KnownDomain => {
        this.#app.log.warn({ err: error, domain }, 'MTA-STS policy not updated')
        const now = this.#app.clock.now()
        return { ...(known && known.expiresAt > now ? known : UNKNOWN), checkedAt: now }
      })
      .then((found) => this.#cache(domain, found))
      .finally(() => this.#checks.delete(domain))
    this.#checks.set(domain, check)
    return check
  }

  async #lookUp(domain: string, known: KnownDomain, owner: number): Promise<KnownDomain> {
    const { resolver, clock } = this.#app
    const found = await lookUpPolicyId(resolver, domain)
    const now = clock.now()
    const kept: KnownDomain = known.expiresAt > now ? { ...known, checkedAt: now } : { ...UNKNOWN, checkedAt: now }
    // A known policy stays valid when its record disappears or DNS fails (RFC 8461 §3.3 and §10.2).
    if (found === 'none' || found === 'unknown') return kept
    const isFresh = now - kept.fetchedAt < REFETCH_INTERVAL_MS && kept.expiresAt - now > REFETCH_BEFORE_MS
    if (kept.policy && kept.id === found.id && isFresh) return kept
    const fetched = await this.#fetches.run(owner, () => this.#fetch(domain))
    if (!fetched) return kept
    const fetchedAt = clock.now()
    // At least until the next look: the mail that waited for it must be able to use it.
    const expiresAt = fetchedAt + Math.max(seconds(fetched.maxAgeSeconds), CHECK_INTERVAL_MS)
    try {
      await this.#app.commit.write((tx) => {
        sql(tx.db).store.run(domain, found.id, JSON.stringify(fetched), fetchedAt, expiresAt)
        sql(tx.db).purge.run(MAX_STORED_POLICIES)
      })
    } catch (error) {
      // A full disk must not lower what the domain demands: until a restart, the policy in memory is enough.
      this.#app.log.warn({ err: error, domain }, 'MTA-STS policy not stored')
    }
    return { id: found.id, policy: fetched, fetchedAt, expiresAt, checkedAt: fetchedAt }
  }

  /** Fetches a policy (RFC 8461 §3.3); undefined: there is no valid one. */
  async #fetch(domain: string): Promise<StsPolicy | undefined> {
    const outcome = await this.#app.fetch.get(`https://mta-sts.${domain}${this.#port}/.well-known/mta-sts.txt`, {
      headers: { accept: 'text/plain' },
      timeoutMs: FETCH_TIMEOUT_MS,
      maxResponseBytes: MAX_POLICY_BYTES,
    })
    if (outcome.kind === 'failed' || outcome.status !== 200 || !outcome.bodyInfo?.isComplete) return undefined
    // RFC 8461 §3.2: otherwise a page that a user of the web server wrote could pass as a policy.
    if (!/^text\/plain *(?:;|$)/i.test(outcome.bodyInfo.contentType)) return undefined
    return parseStsPolicy(outcome.body)
  }
}

const UNKNOWN: KnownDomain = { fetchedAt: 0, expiresAt: 0, checkedAt: 0 }

/** What a session to a host must have; without it the mail is deferred, never sent in clear. */
export interface TlsDemand {
  readonly by: 'mta-sts' | 'dane'
  /** What about the certificate is checked: its validity for the host, the TLSA records, or nothing. */
  readonly verifies: 'certificate' | 'tlsa' | 'nothing'
  readonly tlsa?: readonly TlsaRecord[]
  /** Who demands what, as the beginning of a sentence. */
  readonly words: string
}

/**
 * Returns what a session to one host must have; undefined: as the route's `tls` says. DANE comes before MTA-STS (RFC
 * 8461 §2). TLSA records that SMTP cannot use demand TLS without a check of the certificate (RFC 7672 §2.2).
 * @param domain of the recipient
 * @param dane TLSA records of the host, if DNSSEC protects them
 */
export function chooseTlsPolicy(
  domain: string,
  sts: StsPolicy | undefined,
  dane: readonly TlsaRecord[],
): TlsDemand | undefined {
  const tlsa = dane.filter(isUsableTlsa)
  if (tlsa.length > 0)
    return { by: 'dane', verifies: 'tlsa', tlsa, words: `${domain} demands TLS that matches its TLSA records (DANE)` }
  if (dane.length > 0) return { by: 'dane', verifies: 'nothing', words: `${domain} demands TLS (DANE)` }
  if (sts?.mode === 'enforce')
    return { by: 'mta-sts', verifies: 'certificate', words: `${domain} demands verified TLS (MTA-STS, enforce)` }
  return undefined
}

const DEMAND_NAMES: Readonly<Record<TlsDemand['by'], string>> = { 'mta-sts': 'MTA-STS', dane: 'DANE' }

/** Sessions and failures are not shared with domains that demand less of the same hosts. */
export function nameSite(hosts: readonly string[], demands: readonly (TlsDemand | undefined)[]): string {
  const site = [...new Set(hosts)].sort().join(',')
  const names = new Set(demands.flatMap((demand) => (demand ? [DEMAND_NAMES[demand.by]] : [])))
  return names.size === 0 ? site : `${site} (${[...names].sort().join(', ')})`
}

/** TLSA records of a host: `unknown`: DNS gave no answer, so the host must not be used now (RFC 7672 §2.1.2). */
export type TlsaFinding = readonly TlsaRecord[] | 'unknown'

/** How long after a failed self-test of the DNS servers it is repeated. */
const SELF_TEST_INTERVAL_MS = minutes(10)
/** Records of one host that are used; each job for the host carries them. */
const MAX_TLSA_RECORDS = 20

export type DemandSource = ReturnType<TransportSecurity['ofAccount']>

export class TransportSecurity {
  readonly #app: App
  readonly #sts: StsPolicies
  #selfTest: Promise<boolean> | undefined
  #hasPassed = false
  #testedAt: Millis = 0

  constructor(app: App, policyPort?: number) {
    this.#app = app
    this.#sts = new StsPolicies(app, policyPort)
  }

  /** What the mail of an account needs to know of domains and hosts; waiting for it is counted for the account. */
  ofAccount(owner: number) {
    return {
      findSts: (domain: string) => this.#sts.find(domain, owner),
      isDaneOn: () => this.isDaneOn(),
      findTlsa: (host: string) => this.findTlsa(host),
    }
  }

  /** Whether the DNS servers are trusted and validate DNSSEC. A failed test is repeated from time to time. */
  isDaneOn(): Promise<boolean> {
    const { clock, config, log, resolver } = this.#app
    if (config.dane === 'off') return Promise.resolve(false)
    const now = clock.now()
    if (this.#selfTest && (this.#hasPassed || Math.abs(now - this.#testedAt) < SELF_TEST_INTERVAL_MS))
      return this.#selfTest
    this.#testedAt = now
    this.#selfTest = resolver.isValidating().then((hasPassed) => {
      this.#hasPassed = hasPassed
      if (hasPassed) log.info('DANE is on: the DNS servers validate DNSSEC')
      else if (config.dane === 'on')
        log.warn('DANE is off: the DNS servers do not validate DNSSEC, or do not answer; use servers that do')
      return hasPassed
    })
    return this.#selfTest
  }

  /**
   * The TLSA records of a mail host whose address DNSSEC protects; empty when there are none that DNSSEC protects. They
   * are shortened: each job has a copy of those of all hosts, and an answer of DNS has up to 64 KiB.
   */
  async findTlsa(host: string): Promise<TlsaFinding> {
    const answer = await this.#app.resolver.tlsa(`_${this.#app.config.smtpPort}._tcp.${host}`)
    // A loop of aliases is an error as well, not the absence of records: mail must not go unprotected for it.
    if (isFailedAnswer(answer) || answer.kind === 'loop') return 'unknown'
    return answer.kind === 'ok' && answer.isSecure ? answer.records.slice(0, MAX_TLSA_RECORDS).map(shortenTlsa) : []
  }
}
