/**
 * @module Parses the pattern of an inbound route, and states what would happen to mail for an address now: which
 * mailbox or route gets it, or why none. Read-only.
 */
import type { App } from '#features/core/app/app.ts'
import { findMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { findRoute, type MatchType, toRouteKey } from '#features/receiving/route-rules/rows.ts'
import { findDomainByName } from '#features/setup/domains/domains.ts'
import { invalid } from '#platform/errors.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

/** Longer than any address. */
export const MAX_PATTERN_LENGTH = 320

/**
 * The local part, or its prefix, that a pattern names, in the form that `matchRoute` compares; `''` for catch_all,
 * which ignores it. `support`, `support@` and `support@example.com` are equal. Throws 422 for patterns that match no
 * valid address of the domain.
 * @param domain of the route, A-labels
 */
export function parsePattern(pattern: string, matchType: MatchType, domain: string): string {
  if (matchType === 'catch_all') return ''
  const text = pattern.trim()
  if (text === '')
    throw invalid(
      'pattern',
      `pattern must not be empty unless match_type is catch_all; provide the part of the addresses before the @, such as support.`,
    )
  if (text.includes('*'))
    throw invalid(
      'pattern',
      'Wildcards are not supported; use match_type catch_all for all addresses of the domain, or match_type prefix with the common start of the addresses as the pattern.',
    )
  const at = findLocalPartEnd(text)
  const localPart = text.slice(0, at)
  const isPrefix = matchType === 'prefix'
  // A prefix may be what no local part is: only dots.
  const address = parseMailbox(`${localPart}${isPrefix ? 'x' : ''}@${domain}`)
  if (address.kind === 'invalid')
    throw invalid('pattern', `The pattern is not a valid address: ${lowerFirstLetter(address.reason)}`)
  const namedDomain = text.slice(at + 1)
  if (namedDomain !== '' && parseDomain(namedDomain) !== domain)
    throw invalid(
      'pattern',
      `The pattern names the domain ${namedDomain.slice(0, 100)}, but the route belongs to ${domain}; provide only the part before the @.`,
    )
  return isPrefix ? toRouteKey(`${localPart}x`).slice(0, -1) : toRouteKey(localPart)
}

/**
 * Position of the @ after the local part; the end of the text when there is none. A quoted local part may contain an @.
 */
function findLocalPartEnd(text: string): number {
  const at = text.lastIndexOf('@')
  return at === -1 || (text.startsWith('"') && text.endsWith('"')) ? text.length : at
}

const lowerFirstLetter = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1)

/** A-labels in lower case; undefined when the text is not a domain. */
function parseDomain(text: string): string | undefined {
  const parsed = parseMailbox(`x@${text}`)
  return parsed.kind === 'ok' ? parsed.domain : undefined
}

/** Why mail to an address would not arrive. */
export const REJECTION_REASONS = [
  'unknown_domain',
  'domain_not_verified',
  'inbound_disabled',
  'server_not_receiving',
] as const
type RejectionReason = (typeof REJECTION_REASONS)[number]

/** What would happen now to mail for an address. Throws 422 for a text that is not one. */
export function matchAddress(app: Pick<App, 'config' | 'db'>, accountId: number, text: string) {
  const parsed = parseMailbox(text)
  if (parsed.kind === 'invalid') throw invalid('address', `address must be an email address. ${parsed.reason}`)
  const { address, localPart, domain: name } = parsed
  const domain = findDomainByName(app.db, accountId, name)
  const rejection: RejectionReason | undefined = domain ? findRejection(app, domain) : 'unknown_domain'
  const mailbox = domain && findMailbox(app.db, name, localPart)
  // A mailbox of another registration of the name gets none of this account's mail.
  const own = mailbox?.domainId === domain?.id ? mailbox : undefined
  const route = domain && !own ? findRoute(app.db, domain.id, localPart) : undefined
  const idOf = (found: { readonly uuid: UuidBytes } | undefined) => (found ? formatUuid(found.uuid) : null)
  return {
    address,
    is_accepted: rejection === undefined,
    rejection: rejection ?? null,
    domain_id: idOf(domain),
    mailbox_id: idOf(own),
    route_id: idOf(route),
  }
}

function findRejection(
  { config }: Pick<App, 'config'>,
  { verifiedAt, inboundEnabled }: { readonly verifiedAt: number | null; readonly inboundEnabled: boolean },
): RejectionReason | undefined {
  if (verifiedAt === null) return 'domain_not_verified'
  if (!inboundEnabled) return 'inbound_disabled'
  return config.inboundAddr === '' ? 'server_not_receiving' : undefined
}
