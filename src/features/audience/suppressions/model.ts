/** @module Wire shapes of suppressions. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime } from '#platform/http/envelope.ts'
import {
  extra,
  Nullable,
  OptionalNullable,
  PAGE_FIELDS,
  StrictObject,
  Timestamp,
  Uuid,
} from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { MAX_REASON_LENGTH, type Suppression } from './suppressions.ts'

const REASONS = 'hard_bounce, complaint, manual, unsubscribe, or any text as provided'

export const SuppressionRecord = Type.Object({
  id: Uuid({ description: 'Id of the suppression.' }),
  account_id: Uuid({ description: 'Id of the account.' }),
  email_address: Type.String({ description: 'The address, in lower case; its domain in A-labels.' }),
  reason: Type.String({
    description: `${REASONS}. unsubscribe stops only mail with transactional: false; every other reason stops all mail.`,
  }),
  source_email_id: Nullable(Uuid(), {
    description: 'Email that caused it; null when there was none, or it has been deleted.',
  }),
  stream: extra(
    Nullable(Type.String(), {
      description: 'Slug of the stream that the address unsubscribed from; null: every stream.',
    }),
  ),
  list_id: extra(
    Nullable(Uuid(), {
      description: 'Contact list that the address unsubscribed from; null: mail to any list and to none.',
    }),
  ),
  created_at: Timestamp({ description: 'When it was added.' }),
})
export type SuppressionRecord = Static<typeof SuppressionRecord>

export const SuppressionQuery = Type.Object({
  ...PAGE_FIELDS,
  reason: Type.Optional(Type.String({ description: 'Only those with this reason.' })),
  email: Type.Optional(Type.String({ description: 'Only this address, in any spelling.' })),
})

export const NewSuppressionRequest = StrictObject({
  email_address: Type.String({ description: 'Address to suppress.' }),
  reason: OptionalNullable(Type.String({ maxLength: MAX_REASON_LENGTH }), {
    description:
      'Reason; default manual. unsubscribe (also: unsubscribed, in any case) stops only mail with transactional: false; every other reason stops all mail.',
  }),
})

export const ImportQuery = Type.Object({
  reason: Type.Optional(
    Type.String({
      description: 'Reason for lines without one, such as those of a list of unsubscriptions; default manual.',
    }),
  ),
})

export const ImportResult = Type.Object({
  data: Type.Object({
    imported: Type.Integer({ description: 'Number of lines that are new on the list.' }),
    already_suppressed: Type.Integer({
      description: 'Number of lines that were already on the list; they stay as they were.',
    }),
    invalid: Type.Integer({ description: 'Number of invalid lines.' }),
    total: Type.Integer({ description: 'Number of lines, without the header and empty ones.' }),
    ignored_columns: Type.Array(Type.String(), { description: 'Names of the ignored columns.' }),
  }),
  errors: Type.Array(
    Type.Object({
      line: Type.Integer({ description: 'Number of the line in the file; the first is 1.' }),
      error: Type.String({ description: 'What is wrong with it.' }),
    }),
    { description: 'The first 100 of the invalid lines.' },
  ),
})
export type ImportResult = Static<typeof ImportResult>

export const suppressionWire = (suppression: Suppression, accountUuid: string): SuppressionRecord => ({
  id: formatUuid(suppression.uuid),
  account_id: accountUuid,
  email_address: suppression.address,
  reason: suppression.reason,
  source_email_id: suppression.sourceUuid === null ? null : formatUuid(suppression.sourceUuid),
  stream: suppression.stream,
  list_id: suppression.listUuid === null ? null : formatUuid(suppression.listUuid),
  created_at: isoTime(suppression.createdAt),
})
