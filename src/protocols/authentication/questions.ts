/**
 * @module DNS for the checks of one message: each check may ask so many questions, and none is waited for past the end of the time for all of them.
 * What is refused looks like DNS that failed, so that a check without an answer is a temperror.
 */
import { type MailauthResolver, mailauthResolver } from '../dns/mailauth-resolver.ts'
import type { Resolver } from '../dns/resolver.ts'

export interface Questions {
  /** Rejects with an Error whose `code` tells why, as that of node:dns; see `mailauthResolver`. */
  readonly ask: MailauthResolver
  /** Lower-case names about which nothing could be learnt. */
  readonly failedNames: ReadonlySet<string>
}

/** The name exists without such a record, or does not exist: answers, and no failures. */
const ABSENT = new Set<unknown>(['ENODATA', 'ENOTFOUND'])

/**
 * @param most questions; whatever comes after them rejects at once
 * @param ended resolves when the time is over, whereupon every open question and each later one rejects with ETIMEOUT
 */
export function limitedQuestions(resolver: Resolver, most: number, ended: Promise<void>): Questions {
  const lookUp = mailauthResolver(resolver)
  const failedNames = new Set<string>()
  let isOver = false
  const late = ended.then((): never => {
    isOver = true
    throw timeIsOver()
  })
  // Whoever asks hears of it; without questions nobody does.
  late.catch(() => {})
  let left = most
  return {
    failedNames,
    async ask(name, type) {
      try {
        if (isOver) throw timeIsOver()
        if (left <= 0) throw tooMany()
        left--
        return await Promise.race([late, lookUp(name, type)])
      } catch (error) {
        if (!ABSENT.has(codeOf(error))) failedNames.add(name.toLowerCase())
        throw error
      }
    },
  }
}

const timeIsOver = (): Error => Object.assign(new Error('the time for all checks is over'), { code: 'ETIMEOUT' })

/** Without a code, which mailauth takes for a failure; what it says of SPF is what RFC 7208 §4.6.4 has for too many look-ups. */
const tooMany = (): Error =>
  Object.assign(new Error('too many DNS questions'), {
    spfResult: { error: 'permerror', text: 'Too many DNS requests' },
  })

export const codeOf = (error: unknown): unknown =>
  typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined
