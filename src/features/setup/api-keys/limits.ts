/**
 * @module Where an API key may be used: From domains, networks of its clients, and a time at which it expires; and what
 * restricts its sends: drafts, recipients, emails a day, one mailbox. A key never gives a key more than it has itself.
 */
import type { Database } from 'bun:sqlite'
import { isIP } from 'node:net'
import { startOfDay } from '#features/core/accounts/limits.ts'
import type { Actor, ActorLimits, App } from '#features/core/app/app.ts'
import { countNow, readCounter } from '#features/core/events/record.ts'
import type { Tx } from '#platform/db/open.ts'
import { AppError, invalid, tooManyRequests } from '#platform/errors.ts'
import { createNetworkMatcher } from '#platform/http/client-ip.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { isCidr } from '#platform/settings/setting-kinds.ts'
import { parseDateTime } from '#platform/time/date-time.ts'
import { days, type Millis } from '#platform/units.ts'
import { parseDomain } from '#protocols/address/domain.ts'
import { normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import type { LimitsInput } from './model.ts'

/**
 * The limits after a request. Throws 422 for a malformed or empty one, and for one beyond what the actor itself has.
 * @param before those that stay where the request names none
 * @param input null removes one, undefined leaves it
 */
export function applyLimits(
  app: Pick<App, 'clock' | 'findMailboxAddress'>,
  actor: Actor,
  before: ActorLimits,
  input: LimitsInput,
): ActorLimits {
  const limits: ActorLimits = {
    expiresAt: change(before.expiresAt, input.expires_at, (text) => parseExpiry(text, app.clock.now())),
    domains: change(before.domains, input.domains, (names) => parseEach('domains', names, toDomain)),
    networks: change(before.networks, input.networks, (ranges) => parseEach('networks', ranges, parseNetwork)),
    drafts: change(before.drafts, input.drafts, (isOn) => isOn || undefined),
    allowedRecipients: change(before.allowedRecipients, input.allowed_recipients, (entries) =>
      entries.length === 0 ? undefined : parseEach('allowed_recipients', entries, parseAllowed),
    ),
    dailyLimit: change(before.dailyLimit, input.daily_limit, (emails) => emails),
    mailboxId: change(before.mailboxId, input.mailbox_id, (id) => {
      if (app.findMailboxAddress(actor.accountId, id) !== undefined) return id.toLowerCase()
      throw invalid('mailbox_id', 'There is no agent mailbox with this id.', 'mailbox_not_found')
    }),
  }
  requireWithin(actor.limits ?? {}, limits)
  return limits
}

const change = <Given, T>(before: T, given: Given | null | undefined, parse: (given: Given) => T): T | undefined =>
  given === undefined ? before : given === null ? undefined : parse(given)

function parseExpiry(text: string, now: Millis): Millis {
  const time = parseDateTime(text, 'zoned')
  if (time === undefined) throw invalid('expires_at', 'expires_at must be a date-time such as 2026-12-31T23:59:59Z.')
  if (time <= now) throw invalid('expires_at', 'expires_at must be in the future; to end a key now, delete it.')
  return time
}

const parseEach = (
  field: keyof LimitsInput,
  entries: readonly string[],
  parse: (text: string, field: string) => string,
): readonly string[] => [...new Set(entries.map((entry, index) => parse(entry.trim(), `${field}.${index}`)))]

function toDomain(text: string, field: string): string {
  const parsed = parseDomain(text)
  if (parsed.kind === 'invalid') throw invalid(field, parsed.reason)
  return parsed.domain
}

function parseNetwork(text: string, field: string): string {
  if (!isCidr(text) || text.includes('%'))
    throw invalid(field, 'A network must be an address or a range such as 192.0.2.7 or 10.0.0.0/8.')
  return text
}

function parseAllowed(text: string, field: string): string {
  if (text.startsWith('@')) return `@${toDomain(text.slice(1), field)}`
  const parsed = parseMailbox(text)
  if (parsed.kind === 'invalid') throw invalid(field, `${field}: ${parsed.reason} A whole domain is @example.com.`)
  return normaliseAddress(parsed.address)
}

function requireWithin(own: ActorLimits, limits: ActorLimits): void {
  const { expiresAt, domains, networks } = limits
  if (own.expiresAt !== undefined && (expiresAt === undefined || expiresAt > own.expiresAt))
    throw beyond('expires_at', `expires at ${isoTime(own.expiresAt)}`)
  if (own.domains && !domains?.every((domain) => own.domains?.includes(domain)))
    throw beyond('domains', `is restricted to the domains ${own.domains.join(', ')}`)
  if (own.networks && !networks?.every((network) => isContained(network, own.networks ?? [])))
    throw beyond('networks', `is restricted to the networks ${own.networks.join(', ')}`)
}

const beyond = (field: string, reason: string): AppError =>
  invalid(field, `This key cannot give another key more than it has: it ${reason}.`, 'limit_exceeds_own')

/** Whether all addresses of a network are in one of the others. */
function isContained(network: string, others: readonly string[]): boolean {
  const [address = '', prefix] = network.split('/')
  const bits = isIP(address) === 6 ? 128 : 32
  const wider = others.filter((other) => {
    const [otherAddress = '', otherPrefix = String(bits)] = other.split('/')
    return isIP(otherAddress) === isIP(address) && Number(otherPrefix) <= Number(prefix ?? bits)
  })
  return createNetworkMatcher(wider)(address)
}

/** Whether the sends of the key are restricted, so that it must not do what would let it send otherwise. */
export const isRestricted = ({ drafts, allowedRecipients, dailyLimit, mailboxId }: ActorLimits = {}): boolean =>
  [drafts, allowedRecipients, dailyLimit, mailboxId].some((limit) => limit !== undefined)

/** Throws 403 `domain_not_allowed` when the actor is a key that is restricted to other From domains. */
export function requireAllowedDomain({ limits }: Actor, domain: string): void {
  if (limits?.domains && !limits.domains.includes(domain))
    throw new AppError(
      403,
      'domain_not_allowed',
      `This API key may send from ${limits.domains.join(', ')} only, not from ${domain}; use another key, or add the domain to this one.`,
    )
}

/** Whether a sender is not that of another mailbox than the one of the actor's key, if it is for one. */
export function isOwnSender(app: Pick<App, 'findMailboxAddress'>, { accountId, limits }: Actor, from: string): boolean {
  if (limits?.mailboxId === undefined) return true
  const parsed = parseMailbox(from)
  const own = app.findMailboxAddress(accountId, limits.mailboxId)
  return parsed.kind === 'ok' && normaliseAddress(parsed.address) === own
}

type LimitedEmail = Readonly<{
  from: string
  fromDomain: string
  recipients: readonly { address: string; domain: string }[]
}>

/** Throws what is against the limits of a key: 403 for a sender, 422 for recipients, 429 for the emails of the day. */
export function requireAllowedEmail(
  app: Pick<App, 'clock' | 'db' | 'findMailboxAddress'>,
  actor: Actor,
  email: LimitedEmail,
): void {
  const { allowedRecipients: allowed, mailboxId = '' } = actor.limits ?? {}
  requireAllowedDomain(actor, email.fromDomain)
  if (!isOwnSender(app, actor, email.from))
    throw new AppError(
      403,
      'sender_not_allowed',
      `This API key sends from its agent mailbox only; set From to ${app.findMailboxAddress(actor.accountId, mailboxId)}, or use another key.`,
    )
  const refused = email.recipients.filter(
    ({ address, domain }) =>
      !(allowed?.some((one) => one === normaliseAddress(address) || one === `@${domain}`) ?? true),
  )
  if (refused.length > 0)
    throw invalid(
      'to',
      `This API key may not send to ${refused.map(({ address }) => address).join(', ')}; an administrator of the account can add them to its allowed_recipients.`,
      'recipient_not_allowed',
    )
  requireDailyLimit(app, app.db, actor, email.recipients.length)
}

const dayMetric = ({ id }: Actor): string => `api-key:${id}`

function requireDailyLimit({ clock }: Pick<App, 'clock'>, db: Database, actor: Actor, count: number): void {
  const max = actor.limits?.dailyLimit
  if (max === undefined) return
  const now = clock.now()
  const used = readCounter(db, actor.accountId, dayMetric(actor), startOfDay(now))
  if (used + count <= max) return
  throw tooManyRequests(
    'daily_limit',
    `This API key may send ${max} emails a day (UTC), one for each recipient, and has ${Math.max(0, max - used)} left; an administrator of the account can raise its daily_limit.`,
    (startOfDay(now) + days(1) - now) / 1000,
  )
}

/**
 * Counts the recipients of an email of a key with a daily limit, in the transaction that inserts it; throws 429 beyond
 * the limit. Suppressed ones count too: they are part of what the program tried.
 */
export function consumeDailyLimit(app: Pick<App, 'clock'>, tx: Tx, actor: Actor, count: number): void {
  requireDailyLimit(app, tx.db, actor, count)
  if (actor.limits?.dailyLimit !== undefined)
    countNow(tx, actor.accountId, dayMetric(actor), startOfDay(app.clock.now()), count)
}
