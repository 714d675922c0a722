/**
 * @module Chooses the outgoing address of an attempt among those of `TASSIS_OUTBOUND_IPS`: in turn, those that may send
 * soonest first. Never dials.
 */
import { isIPv6 } from 'node:net'
import type { OutboundSource, Route } from '../model/protocol.ts'

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

  /**
   * The next of these sources, in turn, of those that may send soonest.
   * @param msUntilAllowed when a source may send; infinite if that is not known
   */
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
