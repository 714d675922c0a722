/** @module Wire form of operations. */
import { type Static, Type } from '@sinclair/typebox'
import { Nullable, Text, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { toWire } from '#platform/http/wire.ts'
import type { Operation } from './operations.ts'

export const OperationRecord = Type.Object({
  id: Uuid({ description: 'Id of the operation.' }),
  account_id: Uuid({ description: 'Account that started the operation.' }),
  operation_type: Text('batch, broadcast, newsletter_send, bulk_import, account_deletion or gdpr_erase.'),
  status: Type.String({ description: 'pending, processing, completed or failed.' }),
  total_items: Type.Integer({ description: 'Number of items, invalid ones included.' }),
  completed_items: Type.Integer({ description: 'Completed items.' }),
  failed_items: Type.Integer({ description: 'Items that were rejected or failed.' }),
  error_summary: Nullable(Type.Object({ message: Type.String({ description: 'One sentence.' }) }), {
    description: 'The error; null when there is none.',
  }),
  metadata: Nullable(Type.Unknown(), {
    description:
      'Details. For bulk_import: list_id, confirmed, inserted, duplicates, errors (line and error of the first 100). For broadcast and newsletter_send: contact_list_id, subject (not rendered), sandbox (true: only captured), state, begins_at, handed_over, left_out and, for a single operation, emails (number per status). Other types have none.',
  }),
  created_at: Timestamp({ description: 'When the operation started.' }),
  updated_at: Timestamp({ description: 'When the operation last changed.' }),
  completed_at: Nullable(Timestamp(), { description: 'When the operation ended; null: it has not ended.' }),
  expires_at: Timestamp({ description: 'Until when the operation is listed.' }),
})
export type OperationRecord = Static<typeof OperationRecord>

/** @param emails number of a broadcast's emails per status */
export const toOperationWire = (
  operation: Operation,
  accountUuid: string,
  emails?: Readonly<Record<string, number>>,
): OperationRecord =>
  toWire(OperationRecord, operation, {
    account_id: accountUuid,
    operation_type: operation.type,
    error_summary: toErrorSummary(operation.errorSummary ?? summariseFailures(emails)),
    metadata: toMetadata(operation, emails),
  })

const toErrorSummary = (message: string | null): OperationRecord['error_summary'] =>
  message === null ? null : { message }

/** Says how many emails of a broadcast failed: they may fail in delivery after its operation has completed. */
const summariseFailures = (emails: Readonly<Record<string, number>> | undefined): string | null =>
  emails?.['failed']
    ? `${emails['failed'] === 1 ? '1 email' : `${emails['failed']} emails`} failed; GET /v1/emails with this operation_id and status=failed lists them with their reasons.`
    : null

function toMetadata({ metadata }: Operation, emails: Readonly<Record<string, number>> | undefined): unknown {
  const stored: unknown = metadata === null ? null : JSON.parse(metadata)
  return emails ? { ...Object(stored), emails } : stored
}
