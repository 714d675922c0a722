/** @module Checks the From address of a broadcast or newsletter; errors name the field `from_address`. Never writes. */
import type { Database } from 'bun:sqlite'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { invalid } from '#platform/errors.ts'
import { formatMailbox, parseMailbox } from '#protocols/address/parse.ts'

/**
 * The mailbox in header form. Throws 422 `invalid_address`, or 422 `domain_not_found` when its domain is not registered
 * on the account.
 */
export function requireRegisteredSender(db: Database, accountId: number, fromAddress: string): string {
  const parsed = parseMailbox(fromAddress)
  if (parsed.kind === 'invalid') throw invalid('from_address', `from_address: ${parsed.reason}`, 'invalid_address')
  if (!findSendingDomain(db, accountId, parsed.domain)) {
    throw invalid(
      'from_address',
      `The domain ${parsed.domain} is not registered on this account; add it with POST /v1/domains.`,
      'domain_not_found',
    )
  }
  return formatMailbox(parsed)
}
