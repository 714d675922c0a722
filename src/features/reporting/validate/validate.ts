/**
 * @module Says of an address what can be known without writing to it: whether it is one, whether its domain takes mail, and what lists say of it.
 * Never asks a mail server, so whether the mailbox exists stays unknown; stores nothing of the address.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { createRateLimiter } from '#platform/http/rate-limit.ts'
import { type MailboxResult, parseMailbox } from '#protocols/address/parse.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'
import { isDisposable, isFreeProvider, isRole } from './lists.ts'
import { createMailDomainChecker } from './mail-domains.ts'
import type { ValidationResult } from './model.ts'

/** Throws 429 `rate_limited` for an account that asks too often: validation is what lists that nobody asked for are washed with. */
export type Validate = (actor: Actor, email: string) => Promise<ValidationResult>

const RATE_LIMIT = { ratePerSecond: 20, burst: 100 }

/** @param resolver whose look-ups hold up neither mail nor what tenants see of their own domains */
export function createValidate({ clock }: Pick<App, 'clock'>, resolver: Resolver): Validate {
  const limiter = createRateLimiter(clock)
  const domains = createMailDomainChecker(clock, resolver)
  return async (actor, email) => {
    const taken = limiter.take(String(actor.accountId), 1, RATE_LIMIT)
    if (!taken.ok) {
      throw tooManyRequests(
        'rate_limited',
        `More than ${RATE_LIMIT.ratePerSecond} addresses a second; wait before you go on.`,
        taken.retryAfterSeconds,
      )
    }
    const mailbox = parseBareAddress(email)
    if (mailbox.kind === 'invalid') {
      return {
        email,
        valid: false,
        deliverable: 'no',
        is_disposable: false,
        is_role: false,
        is_free: false,
        mx_found: false,
        reason: mailbox.reason,
      }
    }
    const { domain, localPart } = mailbox
    const { acceptsMail: takesMail, reason } = await domains.check(actor.accountId, domain)
    const disposable = isDisposable(domain)
    return {
      email,
      valid: takesMail !== 'no' && !disposable,
      deliverable: disposable ? 'no' : takesMail,
      is_disposable: disposable,
      is_role: isRole(localPart),
      is_free: isFreeProvider(domain),
      mx_found: takesMail === 'yes',
      reason: disposable ? `The domain ${domain} hands out addresses that are thrown away.` : reason,
    }
  }
}

function parseBareAddress(text: string): MailboxResult {
  const mailbox = parseMailbox(text)
  // No address that we take has an angle bracket in it.
  if (mailbox.kind === 'ok' && text.includes('<')) {
    return { kind: 'invalid', reason: 'A name or angle brackets stand around the address; give the address alone.' }
  }
  return mailbox
}
