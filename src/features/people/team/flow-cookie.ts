/**
 * @module What a browser carries between the two requests of a sign-in that somebody else takes part in, an identity
 * provider or an authenticator: a sealed cookie, valid for some minutes and once. So nothing is stored for strangers, and
 * what was begun in one browser cannot be ended in another.
 */
import type { App } from '#features/core/app/app.ts'
import { storeNewest } from '#platform/bounded-map.ts'
import { openSealed, sealJson } from '#platform/crypto/sealed-token.ts'
import { formatCookie, readCookie } from '#platform/http/session.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { type Millis, seconds } from '#platform/units.ts'
import { isHttps } from './sessions.ts'

const MAX_COOKIE_LENGTH = 4000
/** Of the cookies that were used; the oldest is forgotten when an attack uses more. */
const MAX_USED = 100_000

type Sealed<Facts> = Facts & { readonly id: string; readonly createdAt: Millis }

/** @param name of the cookie, and what it is sealed for */
export function createFlowCookie<Facts extends object>(
  { clock, config, keys }: Pick<App, 'clock' | 'config' | 'keys'>,
  name: string,
  validMs: number,
) {
  /** Ids of those that were used; forgotten at a restart. */
  const used = new Map<string, true>()
  const options = { name, isSecure: isHttps(config) }
  const open = ({ headers }: Request): Sealed<Facts> | undefined => {
    const value = readCookie(headers, options, MAX_COOKIE_LENGTH)
    const facts = value === undefined ? undefined : openSealed<Sealed<Facts>>(keys, value, name)
    // Also for a clock that was set back.
    const isCurrent = facts !== undefined && Math.abs(clock.now() - facts.createdAt) < validMs
    return isCurrent && !used.has(facts.id) ? facts : undefined
  }
  return {
    /** Set-Cookie of the first request. */
    begin(facts: Facts): string {
      const sealed: Sealed<Facts> = { ...facts, id: formatUuid(newUuid()), createdAt: clock.now() }
      return formatCookie(sealJson(keys, sealed, name), validMs / seconds(1), options)
    },
    /** The same as `take`, but it stays usable. */
    read: (request: Request): Facts | undefined => open(request),
    /**
     * What the first request stored; undefined when this browser made none in time, or has been here before, and when
     * it was for something else, for which it stays usable.
     */
    take(request: Request, isMeant: (facts: Facts) => boolean): Facts | undefined {
      const facts = open(request)
      if (!facts || !isMeant(facts)) return undefined
      storeNewest(used, facts.id, true, MAX_USED)
      return facts
    },
    /** Set-Cookie that removes it. */
    end: formatCookie('', 0, options),
  }
}
