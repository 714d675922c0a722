/**
 * @module Names our outgoing addresses and chooses the one of an attempt among those of `TASSIS_OUTBOUND_IPS`: in turn,
 * those that may send soonest first. Never dials.
 */
import { isIP, isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { storeNewest } from '#platform/bounded-map.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { parseJsonObject } from '#platform/json-object.ts'
import { perOwner } from '#platform/per-owner.ts'
import { shareRun } from '#platform/queue/share-run.ts'
import type { Config } from '#platform/settings/config.ts'
import { foundIpsOf, parseOutboundSource } from '#platform/settings/outbound-source.ts'
import { minutes } from '#platform/units.ts'
import { toArpaName } from '#protocols/dns/message.ts'
import { isFailedAnswer } from '#protocols/dns/resolver.ts'
import { confirmReverseName } from '#protocols/dns/reverse-name.ts'
import { canConnectTo } from '#protocols/dns/special-addresses.ts'
import type { OutboundSource, Route } from '../protocol.ts'

/** The configured addresses with the names that they give in EHLO. */
export const listSources = ({ outboundIps, hostname }: Config): OutboundSource[] =>
  outboundIps.flatMap((item) => {
    const source = parseOutboundSource(item)
    if (!source) return []
    const { ip, ehloName = hostname, pool, proxy } = source
    return [{ ip, ehloName, pool, ...(proxy && { isProxied: true }) }]
  })

export class OutboundSources {
  readonly #all: readonly OutboundSource[]
  #next = 0

  constructor(sources: readonly OutboundSource[]) {
    this.#all = sources
  }

  hasPool(pool: string): boolean {
    return this.#all.some((source) => source.pool === pool)
  }

  /**
   * The sources for the first address of a route: those of the pool; if there are none, those without a pool; if there
   * are none either, all. Empty when the system chooses. A smarthost gets the first of those without a pool only: its
   * limits are those of a contract, not of an address, and its receivers do not see ours.
   */
  usableFor({ hosts, fromOutboundIps, smarthost }: Route, pool?: string): readonly OutboundSource[] {
    if (!fromOutboundIps) return []
    const isV6 = isIPv6(hosts[0]?.addresses[0] ?? '')
    const family = this.#all.filter(({ ip }) => isIPv6(ip) === isV6)
    const unpooled = family.filter((source) => !source.pool)
    if (smarthost) return [...unpooled, ...family].slice(0, 1)
    const choices = [family.filter((source) => source.pool === pool), unpooled, family]
    return choices.find(({ length }) => length > 0) ?? []
  }

  /** The next source, in turn, of those that may send soonest; `msUntilAllowed` is infinite if that is not known. */
  choose(
    usable: readonly OutboundSource[],
    msUntilAllowed: (source: OutboundSource) => number,
  ): OutboundSource | undefined {
    const start = this.#next++
    const inTurn = usable.map((_, index) => usable[(start + index) % usable.length] as OutboundSource)
    return inTurn.reduce<OutboundSource | undefined>(
      (best, source) => (best && msUntilAllowed(best) <= msUntilAllowed(source) ? best : source),
      undefined,
    )
  }
}

/** What `SourceNames` found about our IPv6. */
const ipv6Of = perOwner((_: Config): { problem: string | undefined } => ({ problem: 'it has not been checked yet.' }))

/** Whether mail may leave over IPv6 now. */
export const usesIpv6 = (config: Config): boolean =>
  config.ipv6 === true || (config.ipv6 === 'auto' && ipv6Of(config).problem === undefined)

/** JSON of the addresses of the host name and since when they include our IPv6 address, `at`. */
const SEEN_KEY = 'ipv6_seen'

const sql = prepareStatements((db) => ({
  // The address was configured on `day`, of which the time is not known; one of the host name was seen at `at`.
  uncovered: db.prepare<{ n: number }, [number]>(
    `SELECT 1 AS n FROM domains WHERE account_id = ? AND deleted_at IS NULL AND verified_at IS NOT NULL
     AND (spf_verified = 0 OR coalesce(checked_at, 0) < max(
       (SELECT coalesce(max(day) + 1, 1) * 86400000 FROM warm_ups WHERE provider = '' AND instr(source, ':') > 0),
       (SELECT coalesce(max(value->>'at'), 0) FROM meta WHERE key = '${SEEN_KEY}'))) LIMIT 1`,
  ),
}))

/** How long an answer is used, because an account may have thousands of domains. */
const ANSWER_MS = minutes(1)
const MAX_ANSWERS = 10_000
/** By account. */
const answersOf = perOwner((_: Config) => new Map<number, { readonly isCovered: boolean; readonly untilMs: number }>())

/**
 * Whether mail of an account may leave over IPv6 now. With `auto` only while SPF of all its domains was found to cover
 * our addresses since the IPv6 address is one of them: what passes over IPv4 must not fail over IPv6.
 */
export function mayUseIpv6({ clock, config, db }: Pick<App, 'clock' | 'config' | 'db'>, accountId: number): boolean {
  if (config.ipv6 !== 'auto' || !usesIpv6(config)) return usesIpv6(config)
  const nowMs = clock.monotonicMs()
  const known = answersOf(config).get(accountId)
  if (known && known.untilMs > nowMs) return known.isCovered
  const isCovered = !sql(db).uncovered.get(accountId)
  storeNewest(answersOf(config), accountId, { isCovered, untilMs: nowMs + ANSWER_MS }, MAX_ANSWERS)
  return isCovered
}

export interface SourceName extends OutboundSource {
  /** What is wrong, and how to fix it; undefined: nothing, or it is not known yet. */
  readonly problem: string | undefined
  /** Whether the last check got an answer from DNS. */
  readonly isChecked: boolean
}

/** Commands that only look have no database. */
type NamedApp = Pick<App, 'config' | 'log' | 'resolver'> & Partial<Pick<App, 'clock' | 'commit' | 'db'>>

export class SourceNames {
  readonly #app: NamedApp
  readonly #listLocalAddresses: () => readonly string[]
  #checked: readonly SourceName[] = []

  /** @param listLocalAddresses those of this machine */
  constructor(
    app: NamedApp,
    listLocalAddresses = () =>
      Object.values(networkInterfaces())
        .flatMap((found) => found ?? [])
        .map((a) => a.address),
  ) {
    this.#app = app
    this.#listLocalAddresses = listLocalAddresses
  }

  /** The addresses as the last check found them; empty before the first one. */
  all(): readonly SourceName[] {
    return this.#checked
  }

  /** Why TASSIS_IPV6=auto does not use IPv6, by the last check; undefined: nothing is missing. */
  get ipv6Problem(): string | undefined {
    return ipv6Of(this.#app.config).problem
  }

  /**
   * Checks all addresses, or waits for the check in progress, and logs new problems. What DNS does not answer stays as
   * it was.
   */
  readonly check = shareRun(() => this.#check())

  async #check(): Promise<void> {
    const sources = await this.#listSources()
    const known = new Map(this.#checked.map(({ ip, problem }) => [ip, problem]))
    this.#checked = await Promise.all(
      sources.map(async (source) => {
        const found = await this.#findProblem(source)
        const isChecked = found !== 'unknown'
        return { ...source, problem: isChecked ? found : known.get(source.ip), isChecked }
      }),
    )
    foundIpsOf(this.#app.config).ips = sources.map(({ ip }) => ip)
    const problem = this.#findIpv6Problem()
    if (problem === undefined && this.#app.config.outboundIps.length === 0) await this.#recordSeen()
    ipv6Of(this.#app.config).problem = problem
    for (const { ip, problem } of this.#checked)
      if ((this.#app.config.ipv6 === true || !isIPv6(ip)) && problem !== undefined && problem !== known.get(ip))
        this.#app.log.warn({ source: ip }, problem)
  }

  /** Before mail leaves from another address of the host name: SPF records that do not name the host may not cover it. */
  async #recordSeen(): Promise<void> {
    const { clock, commit, config, db } = this.#app
    if (!clock || !commit || !db) return
    const ips = this.#checked.map(({ ip }) => ip).sort()
    const seen = parseJsonObject(getMeta(db, SEEN_KEY) ?? '')
    if (String(seen?.['ips']) === String(ips)) return
    await commit.writeFromReserve((tx) => setMeta(tx.db, SEEN_KEY, JSON.stringify({ ips, at: clock.now() })))
    answersOf(config).clear()
  }

  /** The configured addresses; without any, those to which the host name leads. */
  async #listSources(): Promise<OutboundSource[]> {
    const { config, resolver } = this.#app
    const { delivery, hostname, outboundIps } = config
    if (delivery !== 'direct') return []
    if (outboundIps.length > 0) return listSources(config)
    if (!hostname.includes('.')) return []
    const listAddresses = async (family: number) => {
      const answer = await (family === 6 ? resolver.aaaa(hostname) : resolver.a(hostname))
      if (isFailedAnswer(answer)) return this.#checked.flatMap(({ ip }) => (isIP(ip) === family ? ip : []))
      return answer.kind === 'ok' ? answer.records : []
    }
    const found = await Promise.all((config.ipv6 === false ? [4] : [4, 6]).map(listAddresses))
    return found.flat().map((ip) => ({ ip, ehloName: hostname }))
  }

  /**
   * What is missing before mail may leave over IPv6. SPF must cover the address: the records that domains publish list
   * the configured addresses, else those of the host name; so without configured ones, the system must have no other.
   */
  #findIpv6Problem(): string | undefined {
    const { allowPrivateNetworks, delivery, hostname, outboundIps } = this.#app.config
    if (delivery !== 'direct') return 'mail does not leave from this machine itself.'
    const isUsable = (ip: string) => isIPv6(ip) && canConnectTo(ip, allowPrivateNetworks)
    const configured = listSources(this.#app.config).flatMap(({ ip }) => (isUsable(ip) ? ip : []))
    const own = outboundIps.length > 0 ? configured : [...new Set(this.#listLocalAddresses())].filter(isUsable)
    if (own.length === 0)
      return outboundIps.length > 0
        ? 'TASSIS_OUTBOUND_IPS names no public IPv6 address, so SPF records cover none. Before you add one, have the owners of all domains add it (ip6:) to their SPF records; domains without it cannot send after three days.'
        : 'this machine has no public IPv6 address.'
    if (outboundIps.length === 0 && own.length > 1)
      return `this machine has several IPv6 addresses (${own.slice(0, 3).join(', ')}). Name the one to use, and the IPv4 address, in TASSIS_OUTBOUND_IPS.`
    const missing = own.find((ip) => !this.#checked.some((source) => toArpaName(source.ip) === toArpaName(ip)))
    if (missing !== undefined)
      return `${hostname} has no AAAA record with ${missing}, so SPF records do not cover it. Add the record.`
    const addresses = this.#checked.filter(({ ip }) => isUsable(ip))
    const unknown = addresses.find(({ isChecked, problem }) => !isChecked && problem === undefined)
    if (unknown && this.ipv6Problem !== undefined) return `the reverse DNS of ${unknown.ip} could not be looked up.`
    return addresses.find(({ problem }) => problem !== undefined)?.problem
  }

  /** `unknown` when DNS gives no answer. */
  async #findProblem({ ip, ehloName }: OutboundSource): Promise<string | undefined> {
    const { config, resolver } = this.#app
    // Behind address translation the receivers see another address, which is not known here.
    if (!canConnectTo(ip, config.allowPrivateNetworks)) return undefined
    const found = await confirmReverseName(resolver, ip)
    if (found.kind === 'unknown') return 'unknown'
    const [name] = found.names
    if (name === undefined)
      return `${ip} has no PTR record, so many receivers reject its mail. Have its provider set the PTR record (reverse DNS) to ${ehloName}.`
    if (found.kind === 'unconfirmed')
      return `The PTR record of ${ip} is ${name}, which does not lead back to ${ip}, so many receivers reject its mail. Add an address record for ${name}, or have the provider of the address set the PTR record to ${ehloName}.`
    if (found.names.includes(ehloName.toLowerCase())) return undefined
    return `${ip} gives the name ${ehloName} in EHLO, but its PTR record is ${name}, which receivers may distrust. Set ${ip}=${name} in TASSIS_OUTBOUND_IPS, or the PTR record to ${ehloName}.`
  }
}
