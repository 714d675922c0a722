/** @module States what would happen to mail for an address now: which mailbox or route gets it, or why none. Read-only. */
import type { App } from '#features/core/app/app.ts'
import { findMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { findRoute } from '#features/receiving/route-rules/match.ts'
import { findDomainByName } from '#features/setup/domains/domains.ts'
import { invalid } from '#platform/errors.ts'
import type { UuidBytes } from '#platform/ids.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

/** Why mail to an address would not arrive. */
export const REJECTION_REASONS = [
  'unknown_domain',
  'domain_not_verified',
  'inbound_disabled',
  'server_not_receiving',
] as const
export type RejectionReason = (typeof REJECTION_REASONS)[number]

export interface AddressMatch {
  /** As mail servers compare it: without a name, its domain in A-labels. */
  readonly address: string
  readonly domainUuid: UuidBytes | undefined
  /** Undefined: mail arrives. */
  readonly rejection: RejectionReason | undefined
  readonly mailboxUuid: UuidBytes | undefined
  /** Also for an address whose mail does not arrive yet. */
  readonly routeUuid: UuidBytes | undefined
}

/** Throws 422 for a text that is not an address. */
export function matchAddress(app: Pick<App, 'config' | 'db'>, accountId: number, text: string): AddressMatch {
  const parsed = parseMailbox(text)
  if (parsed.kind === 'invalid') throw invalid('address', `address must be an email address. ${parsed.reason}`)
  const { address, localPart, domain: name } = parsed
  const domain = findDomainByName(app.db, accountId, name)
  if (!domain)
    return {
      address,
      domainUuid: undefined,
      rejection: 'unknown_domain',
      mailboxUuid: undefined,
      routeUuid: undefined,
    }
  const mailbox = findMailbox(app.db, name, localPart)
  // A mailbox of another registration of the name gets none of this account's mail.
  const own = mailbox?.domainId === domain.id ? mailbox : undefined
  return {
    address,
    domainUuid: domain.uuid,
    rejection: findRejection(app, domain),
    mailboxUuid: own?.uuid,
    routeUuid: own ? undefined : findRoute(app.db, domain.id, localPart)?.uuid,
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
