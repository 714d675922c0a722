/**
 * @module /v1/validate: validates an address without sending to it: syntax, DNS of the domain, and public lists. Never
 * contacts a mail server, so whether the mailbox exists stays unknown. Stores nothing about the address.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { describeRoute } from '#platform/http/access.ts'
import { createRateLimiter, requireTaken } from '#platform/http/rate-limit.ts'
import { StrictObject, StringEnum, Text, TextOrNull } from '#platform/http/schemas.ts'
import { Slots } from '#platform/queue/slots.ts'
import type { Clock } from '#platform/time/clock.ts'
import { type MailboxResult, parseMailbox } from '#protocols/address/parse.ts'
import { resolveMailHosts } from '#protocols/dns/mail-route.ts'
import type { Resolver } from '#protocols/dns/resolver.ts'
import { isDisposable, isFreeProvider, isRole } from './lists.ts'

const ValidationRequest = StrictObject({
  email: Text('Address to validate, without a display name.'),
})

const DELIVERABLE = ['yes', 'no', 'unknown'] as const

const ValidationResult = Type.Object({
  email: Text('The address as submitted.'),
  valid: Type.Boolean({
    description:
      'Whether it passes all checks: its syntax is valid, its domain accepts mail, and it is not disposable.',
  }),
  deliverable: StringEnum(DELIVERABLE, {
    description:
      'yes: the domain accepts mail; the mailbox itself is never probed. no: the syntax is invalid, the address is disposable, or the domain does not accept mail. unknown: DNS did not answer.',
  }),
  is_disposable: Type.Boolean({ description: 'Whether its domain offers disposable addresses.' }),
  is_role: Type.Boolean({ description: 'Whether it names a role, such as info or sales, instead of a person.' }),
  is_free: Type.Boolean({ description: 'Whether its domain offers free addresses.' }),
  mx_found: Type.Boolean({
    description: 'Whether DNS has a mail server for the domain; an A or AAAA record suffices (RFC 5321 §5.1).',
  }),
  reason: TextOrNull('Why it is invalid, or why its deliverability is unknown; null otherwise.'),
})
type ValidationResult = Static<typeof ValidationResult>

/** @param resolver see `createValidate` */
export function validateRoutes(app: Pick<App, 'clock'>, resolver: Resolver) {
  const validate = createValidate(app, resolver)
  return new Elysia({ prefix: '/v1/validate', tags: ['Validation'] })
    .use(authenticated)
    .post('/', ({ actor, body }) => validate(actor, body.email), {
      body: ValidationRequest,
      response: ValidationResult,
      detail: describeRoute(
        'Validate an address',
        requires('emails:read'),
        'Checks the syntax, the DNS of the domain, and lists of disposable domains, free providers and roles. The mailbox is not probed. An invalid address is a 200 too. Beyond 20 requests a second, with bursts, the response is a 429.',
      ),
    })
}

const RATE_LIMIT = { ratePerSecond: 20, burst: 100 }

/**
 * Returns the function that validates. It throws 429 `rate_limited` when an account asks too often, because validation
 * can be misused to clean lists collected without consent.
 * @param resolver must be separate from the resolvers for delivery and for domain verification
 */
export function createValidate({ clock }: Pick<App, 'clock'>, resolver: Resolver) {
  const limiter = createRateLimiter(clock)
  const checkMailDomain = createMailDomainChecker(clock, resolver)
  return async (actor: Actor, email: string): Promise<ValidationResult> => {
    requireTaken(
      limiter.take(String(actor.accountId), 1, RATE_LIMIT),
      `At most ${RATE_LIMIT.ratePerSecond} addresses a second are allowed; wait before you continue.`,
    )
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

interface MailDomainResult {
  /** `unknown`: DNS did not answer, so whether the domain accepts mail is not known. */
  readonly acceptsMail: 'yes' | 'no' | 'unknown'
  /** A sentence; null if the domain accepts mail. */
  readonly reason: string | null
}

/** Time limit of one check. The lookup may continue beyond it, and its result serves later callers. */
const TIMEOUT_MS = 5000
/** The resolver also serves the checks of received mail. */
const MAX_CONCURRENT = 128
const MAX_CONCURRENT_PER_ACCOUNT = 16

/**
 * Returns the function that checks in DNS whether a domain, in A-labels and lower case, accepts mail (RFC 5321 §5.1,
 * RFC 7505); it never rejects. Concurrent lookups are limited, so that a list of dead domains does not delay others.
 */
function createMailDomainChecker(clock: Clock, resolver: Resolver) {
  const allSlots = new Slots(MAX_CONCURRENT)
  const accountSlots = new Map<number, Slots>()

  /**
   * Returns undefined when `signal` was aborted while the check waited for a slot. The slot is held until DNS is done,
   * even if the caller no longer waits.
   */
  async function checkInSlot(
    accountId: number,
    domain: string,
    signal: AbortSignal,
  ): Promise<MailDomainResult | undefined> {
    const slots = accountSlots.get(accountId) ?? new Slots(MAX_CONCURRENT_PER_ACCOUNT)
    accountSlots.set(accountId, slots)
    try {
      return await slots.run(signal, () => allSlots.run(signal, () => lookUpMail(resolver, domain)))
    } finally {
      if (slots.isIdle && accountSlots.get(accountId) === slots) accountSlots.delete(accountId)
    }
  }

  return (accountId: number, domain: string): Promise<MailDomainResult> => {
    const ending = new AbortController()
    return new Promise((resolve) => {
      const timer = clock.after(TIMEOUT_MS, () => {
        ending.abort()
        resolve(unknownResult(`DNS did not answer for ${domain} within 5 seconds.`))
      })
      void checkInSlot(accountId, domain, ending.signal).then((found) => {
        if (!found) return
        timer.cancel()
        resolve(found)
      })
    })
  }
}

async function lookUpMail(resolver: Resolver, domain: string): Promise<MailDomainResult> {
  // The order of the hosts does not matter, because no connection is made.
  const route = await resolveMailHosts(resolver, domain, { shuffle: (items) => [...items] }).catch(() => undefined)
  switch (route?.kind) {
    case 'ok':
      return { acceptsMail: 'yes', reason: null }
    case 'null-mx':
      return rejectsMail(`The domain ${domain} does not accept mail (null MX).`)
    case 'nxdomain':
      return rejectsMail(`The domain ${domain} does not exist.`)
    case 'no-mail-host':
      return rejectsMail(`The domain ${domain} has no MX, A or AAAA record.`)
    case 'literal-mx':
      return rejectsMail(`The MX records of ${domain} contain IP addresses instead of host names.`)
    case 'loop':
      return unknownResult(`The CNAME records of ${domain} form a loop.`)
    case 'temporary':
      return unknownResult(route.reason)
    case undefined:
      return unknownResult(`The domain ${domain} could not be looked up.`)
  }
}

const rejectsMail = (reason: string): MailDomainResult => ({ acceptsMail: 'no', reason })
const unknownResult = (reason: string): MailDomainResult => ({ acceptsMail: 'unknown', reason })
