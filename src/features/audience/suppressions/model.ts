/** @module Wire shapes of suppressions. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime } from '#platform/http/envelope.ts'
import { Nullable, OptionalNullable, PAGE_FIELDS, StrictObject, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { MAX_REASON_LENGTH, type Suppression } from './suppressions.ts'

const REASONS = 'hard_bounce, complaint, manual, unsubscribe, or as it was given'

export const SuppressionRecord = Type.Object({
  id: Uuid({ description: 'Id of the suppression.' }),
  account_id: Uuid({ description: 'Account that does not send to the address.' }),
  email_address: Type.String({ description: 'The address, in lower case; its domain in A-labels.' }),
  reason: Type.String({
    description: `${REASONS}. unsubscribe stops only mail with transactional: false; every other reason stops all mail.`,
  }),
  source_email_id: Nullable(Uuid(), { description: 'Email that led to it; null when there was none, or it is gone.' }),
  stream: Nullable(Type.String(), {
    description: 'Slug of the stream that it unsubscribed from; null: it concerns every stream.',
  }),
  list_id: Nullable(Uuid(), {
    description: 'Contact list that it unsubscribed from; null: it concerns mail to any list and to none.',
  }),
  created_at: Timestamp({ description: 'When it was put on the list.' }),
})
export type SuppressionRecord = Static<typeof SuppressionRecord>

export const SuppressionQuery = Type.Object({
  ...PAGE_FIELDS,
  reason: Type.Optional(Type.String({ description: 'Only those with this reason.' })),
  email: Type.Optional(Type.String({ description: 'Only this address, in any spelling.' })),
})

export const NewSuppressionRequest = StrictObject({
  email_address: Type.String({ description: 'Address that is not to be sent to.' }),
  reason: OptionalNullable(Type.String({ maxLength: MAX_REASON_LENGTH }), {
    description:
      'Why; default manual. unsubscribe (also: unsubscribed, in any case) stops only mail with transactional: false; every other reason stops all mail.',
  }),
})

export const ImportQuery = Type.Object({
  reason: Type.Optional(
    Type.String({
      description: 'Reason of the lines that have none, such as those of a list of unsubscriptions; default manual.',
    }),
  ),
})

export const ImportResult = Type.Object({
  data: Type.Object({
    imported: Type.Integer({ description: 'Lines that are new on the list.' }),
    already_suppressed: Type.Integer({ description: 'Lines that were on the list before; they stay as they were.' }),
    invalid: Type.Integer({ description: 'Lines that could not be taken.' }),
    total: Type.Integer({ description: 'Lines in all, without the header and empty ones.' }),
    ignored_columns: Type.Array(Type.String(), { description: 'Names of the columns that were passed over.' }),
  }),
  errors: Type.Array(
    Type.Object({
      line: Type.Integer({ description: 'Number of the line in the file; the first is 1.' }),
      error: Type.String({ description: 'What is wrong with it.' }),
    }),
    { description: 'The first 100 of the invalid lines.' },
  ),
})

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
