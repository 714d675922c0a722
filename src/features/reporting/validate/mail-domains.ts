/**
 * @module Whether domains that tenants name take mail, from DNS (RFC 5321 §5.1, RFC 7505), within 5 seconds: remembered for some minutes, asked once
 * for all who wait for the same one, and never more than a few at once, an account and in all, so that a list of dead domains slows
 * nobody else.
 */
import type { Clock } from '#platform/clock.ts'
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
const KEPT_SECONDS = 300
const UNKNOWN_KEPT_SECONDS = 30
const MOST_KEPT = 20_000
const MOST_KEPT_BYTES = 8 * 1024 * 1024
const ENTRY_BYTES = 300
const MOST_AT_ONCE = 128
const MOST_AT_ONCE_OF_ACCOUNT = 16

interface Asking {
  /** False once whoever asked has been answered without it. */
  isWanted: boolean
}

export function createMailDomains(clock: Clock, resolver: Resolver): MailDomains {
  const known = createTtlCache<MailDomain>(clock, { maxEntries: MOST_KEPT, maxWeight: MOST_KEPT_BYTES })
  const underWay = new Map<string, Promise<MailDomain>>()
  const places = createPlaces(MOST_AT_ONCE)
  const placesOf = new Map<number, Places>()

  async function look(domain: string): Promise<MailDomain> {
    const found = await lookUp(resolver, domain)
    const keptSeconds = found.takesMail === 'unknown' ? UNKNOWN_KEPT_SECONDS : KEPT_SECONDS
    known.set(domain, found, keptSeconds, domain.length + ENTRY_BYTES)
    underWay.delete(domain)
    return found
  }

  /** Undefined when it was not wanted any more at its turn. The places are held until DNS is done, also when whoever asked has gone. */
  async function inTurn(accountId: number, domain: string, asking: Asking): Promise<MailDomain | undefined> {
    const own = placesOf.get(accountId) ?? createPlaces(MOST_AT_ONCE_OF_ACCOUNT)
    placesOf.set(accountId, own)
    if (!(await own.take(asking))) return undefined
    try {
      if (!(await places.take(asking))) return undefined
      try {
        const cached = known.get(domain)
        if (cached) return cached.value
        let looking = underWay.get(domain)
        if (!looking) {
          looking = look(domain)
          underWay.set(domain, looking)
        }
        return await looking
      } finally {
        places.give()
      }
    } finally {
      own.give()
      if (own.isIdle()) placesOf.delete(accountId)
    }
  }

  return {
    look(accountId, domain) {
      const cached = known.get(domain)
      if (cached) return Promise.resolve(cached.value)
      const asking: Asking = { isWanted: true }
      return new Promise((resolve) => {
        const timer = clock.after(TIMEOUT_MS, () => {
          asking.isWanted = false
          resolve(unknown(`DNS did not answer for ${domain} within 5 seconds.`))
        })
        void inTurn(accountId, domain, asking).then((found) => {
          if (!found) return
          timer.cancel()
          resolve(found)
        })
      })
    },
  }
}

interface Places {
  /** Resolves with true at its turn, or with false when it is not wanted then: no place is taken. */
  take(asking: Asking): Promise<boolean>
  give(): void
  isIdle(): boolean
}

/** So many at once, the others in order of their coming. */
function createPlaces(most: number): Places {
  let inUse = 0
  const waiting: { readonly asking: Asking; readonly go: (isTaken: boolean) => void }[] = []
  return {
    take(asking) {
      if (inUse < most) {
        inUse++
        return Promise.resolve(true)
      }
      return new Promise((go) => waiting.push({ asking, go }))
    },
    give() {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        next.go(next.asking.isWanted)
        if (next.asking.isWanted) return
      }
      inUse--
    },
    isIdle: () => inUse === 0,
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
