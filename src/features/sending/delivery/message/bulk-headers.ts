/**
 * @module Builds the headers of broadcast mail: List-Id (RFC 2919) for the filters of recipients, Feedback-ID, by which
 * Gmail's Postmaster Tools separate campaigns, and Precedence, which stops auto-replies. Every attempt has the same
 * headers, and none of them names a recipient. Never writes.
 */
import type { App } from '#features/core/app/app.ts'
import { accountTag } from '#features/sending/tracking/tokens.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'

interface BroadcastOrigin {
  readonly accountUuid: Uint8Array
  readonly listUuid: Uint8Array | null
  readonly operationUuid: Uint8Array | null
  readonly newsletterId: number | null
}

const sql = prepareStatements((db) => ({
  origin: db.prepare<BroadcastOrigin, [number]>(
    `SELECT accounts.uuid AS accountUuid, contact_lists.uuid AS listUuid, operations.uuid AS operationUuid, newsletter_id AS newsletterId FROM emails
     JOIN accounts ON accounts.id = emails.account_id JOIN broadcasts ON broadcasts.id = broadcast_id
     LEFT JOIN contact_lists ON contact_lists.id = emails.list_id LEFT JOIN operations ON operations.id = broadcasts.operation_id WHERE emails.id = ?`,
  ),
}))

/**
 * The last part of Feedback-ID. Gmail requires 5 to 15 characters that are the same in all mail of a sender, and shows
 * its statistics by signing domain.
 */
const SENDER_ID = 'tassis'

/**
 * @param signingDomain the d= of the signature, which proves that the sender owns the list name, as RFC 2919 §3
 * requires
 */
export function buildBulkHeaders(
  db: App['db'],
  emailId: number,
  signingDomain: string,
): readonly (readonly [name: string, value: string])[] {
  const origin = sql(db).origin.get(emailId)
  if (!origin) throw new Error(`email ${emailId} has no broadcast`)
  const { accountUuid, listUuid, operationUuid, newsletterId } = origin
  const campaign = operationUuid === null ? 'none' : formatUuid(operationUuid)
  const kind = newsletterId === null ? 'broadcast' : 'newsletter'
  return [
    ...(listUuid === null ? [] : [['List-Id', `<${formatUuid(listUuid)}.${signingDomain}>`] as const]),
    ['Feedback-ID', [campaign, accountTag(accountUuid).toString(16), kind, SENDER_ID].join(':')],
    ['Precedence', 'bulk'],
  ]
}
