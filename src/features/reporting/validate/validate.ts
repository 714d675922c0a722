/**
 * @module Validates an address without sending to it: syntax, DNS of the domain, and public lists. Never contacts a
 * mail server, so whether the mailbox exists stays unknown. Stores nothing about the address.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { tooManyRequests } from '#platform/errors.ts'
import { createRateLimiter } from '#platform/http/rate-limit.ts'
import { type MailboxResult, parseMailbox } from '#protocols/address/parse.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'
import { isDisposable, isFreeProvider, isRole } from './lists.ts'
import { createMailDomainChecker } from './mail-domains.ts'
import type { ValidationResult } from './model.ts'

/**
 * Throws 429 `rate_limited` when an account asks too often, because validation can be misused to clean lists collected
 * without consent.
 */
export type Validate = (actor: Actor, email: string) => Promise<ValidationResult>

const RATE_LIMIT = { ratePerSecond: 20, burst: 100 }

/** @param resolver must be separate from the resolvers for delivery and for domain verification */
export function createValidate({ clock }: Pick<App, 'clock'>, resolver: Resolver): Validate {
  const limiter = createRateLimiter(clock)
  const checkMailDomain = createMailDomainChecker(clock, resolver)
  return async (actor, email) => {
    const allowance = limiter.take(String(actor.accountId), 1, RATE_LIMIT)
    if (!allowance.ok) {
      throw tooManyRequests(
        'rate_limited',
        `At most ${RATE_LIMIT.ratePerSecond} addresses a second are allowed; wait before you continue.`,
        allowance.retryAfterSeconds,
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
    const { acceptsMail: takesMail, reason } = await checkMailDomain(actor.accountId, domain)
    const disposable = isDisposable(domain)
    return {
      email,
      valid: takesMail !== 'no' && !disposable,
      deliverable: disposable ? 'no' : takesMail,
      is_disposable: disposable,
      is_role: isRole(localPart),
      is_free: isFreeProvider(domain),
      mx_found: takesMail === 'yes',
      reason: disposable ? `The domain ${domain} offers disposable addresses.` : reason,
    }
  }
}

function parseBareAddress(text: string): MailboxResult {
  const mailbox = parseMailbox(text)
  // No valid address contains an angle bracket.
  if (mailbox.kind === 'ok' && text.includes('<')) {
    return { kind: 'invalid', reason: 'The address must have no display name and no angle brackets.' }
  }
  return mailbox
}
