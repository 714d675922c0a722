/**
 * @module What a browser carries between the two requests of a sign-in that somebody else takes part in, an identity
 * provider or an authenticator: a sealed cookie, valid for some minutes and once. So nothing is stored for strangers, and
 * what was begun in one browser cannot be ended in another.
 */
import type { App } from '#features/core/app/app.ts'
import { attempt } from '#platform/attempt.ts'
import { storeNewest } from '#platform/bounded-map.ts'
import { formatCookie, readCookie } from '#platform/http/session.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
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
  return {
    /** Set-Cookie of the first request. */
    begin(facts: Facts): string {
      const sealed: Sealed<Facts> = { ...facts, id: formatUuid(newUuid()), createdAt: clock.now() }
      const value = Buffer.from(keys.seal(JSON.stringify(sealed), name)).toString('base64url')
      return formatCookie(value, validMs / seconds(1), options)
    },
    /**
     * What the first request stored; undefined when this browser made none in time, or has been here before, and when
     * it was for something else, for which it stays usable.
     */
    take({ headers }: Request, isMeant: (facts: Facts) => boolean): Facts | undefined {
      const value = readCookie(headers, options, MAX_COOKIE_LENGTH)
      const opened = value && attempt(() => keys.unsealText(Buffer.from(value, 'base64url'), name))
      if (!opened) return undefined
      const facts = JSON.parse(opened) as Sealed<Facts>
      // Also for a clock that was set back.
      const isCurrent = Math.abs(clock.now() - facts.createdAt) < validMs
      if (!isCurrent || used.has(facts.id) || !isMeant(facts)) return undefined
      storeNewest(used, facts.id, true, MAX_USED)
      return facts
    },
    /** Set-Cookie that removes it. */
    end: formatCookie('', 0, options),
  }
}
