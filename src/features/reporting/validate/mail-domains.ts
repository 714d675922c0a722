/**
 * @module Whether domains that tenants name take mail, from DNS (RFC 5321 §5.1, RFC 7505), within 5 seconds: remembered for some minutes, asked once
 * for all who wait for the same one, and never more than a few at once, an account and in all, so that a list of dead domains slows
 * nobody else.
 */
import type { Clock } from '#platform/clock.ts'
import { Slots } from '#platform/queue/slots.ts'
import { createTtlCache } from '#protocols/dns/cache.ts'
import { resolveMailHosts } from '#protocols/dns/mail-route.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'

export interface MailDomain {
  /** `unknown`: DNS gave no answer. */
  readonly takesMail: 'yes' | 'no' | 'unknown'
  /** A sentence; null where it takes mail. */
  readonly reason: string | null
}

export interface MailDomains {
  /** @param domain A-labels, lower case. Never rejects. */
  look(accountId: number, domain: string): Promise<MailDomain>
}

/** For an answer in all; the look-up itself may go on for the next who asks. */
const TIMEOUT_MS = 5000
const TTL_SECONDS = 300
const UNKNOWN_TTL_SECONDS = 30
const MAX_KEPT = 20_000
const MAX_KEPT_BYTES = 8 * 1024 * 1024
const ENTRY_BYTES = 300
const MAX_CONCURRENT = 128
const MAX_CONCURRENT_PER_ACCOUNT = 16

export function createMailDomains(clock: Clock, resolver: Resolver): MailDomains {
  const known = createTtlCache<MailDomain>(clock, { maxEntries: MAX_KEPT, maxWeight: MAX_KEPT_BYTES })
  const underWay = new Map<string, Promise<MailDomain>>()
  const slots = new Slots(MAX_CONCURRENT)
  const slotsOf = new Map<number, Slots>()

  async function look(domain: string): Promise<MailDomain> {
    const found = await lookUp(resolver, domain)
    const keptSeconds = found.takesMail === 'unknown' ? UNKNOWN_TTL_SECONDS : TTL_SECONDS
    known.set(domain, found, keptSeconds, domain.length + ENTRY_BYTES)
    underWay.delete(domain)
    return found
  }

  async function lookOnce(domain: string): Promise<MailDomain> {
    const cached = known.get(domain)
    if (cached) return cached.value
    let looking = underWay.get(domain)
    if (!looking) {
      looking = look(domain)
      underWay.set(domain, looking)
    }
    return await looking
  }

  /** Undefined when `signal` was aborted before its turn. Both slots are held until DNS is done, caller or not. */
  async function inTurn(accountId: number, domain: string, signal: AbortSignal): Promise<MailDomain | undefined> {
    const own = slotsOf.get(accountId) ?? new Slots(MAX_CONCURRENT_PER_ACCOUNT)
    slotsOf.set(accountId, own)
    try {
      return await own.run(signal, () => slots.run(signal, () => lookOnce(domain)))
    } finally {
      if (own.isIdle && slotsOf.get(accountId) === own) slotsOf.delete(accountId)
    }
  }

  return {
    look(accountId, domain) {
      const cached = known.get(domain)
      if (cached) return Promise.resolve(cached.value)
      const ending = new AbortController()
      return new Promise((resolve) => {
        const timer = clock.after(TIMEOUT_MS, () => {
          ending.abort()
          resolve(unknown(`DNS did not answer for ${domain} within 5 seconds.`))
        })
        void inTurn(accountId, domain, ending.signal).then((found) => {
          if (!found) return
          timer.cancel()
          resolve(found)
        })
      })
    },
  }
}

async function lookUp(resolver: Resolver, domain: string): Promise<MailDomain> {
  // In any order: nothing is dialled.
  const route = await resolveMailHosts(resolver, domain, { shuffle: (items) => [...items] }).catch(() => undefined)
  switch (route?.kind) {
    case 'ok':
      return { takesMail: 'yes', reason: null }
    case 'null-mx':
      return no(`The domain ${domain} says that it takes no mail (null MX).`)
    case 'nxdomain':
      return no(`The domain ${domain} does not exist.`)
    case 'no-mail-host':
      return no(`The domain ${domain} has no mail server: neither an MX record nor an address.`)
    case 'literal-mx':
      return no(`The MX records of ${domain} hold IP addresses where they must name hosts.`)
    case 'loop':
      return unknown(`The aliases of ${domain} in DNS lead nowhere.`)
    case 'temporary':
      return unknown(route.reason)
    case undefined:
      return unknown(`The domain ${domain} could not be looked up.`)
  }
}

const no = (reason: string): MailDomain => ({ takesMail: 'no', reason })
const unknown = (reason: string): MailDomain => ({ takesMail: 'unknown', reason })
