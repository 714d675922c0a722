/** @module Wire shapes of suppressions. */
import { type Static, Type } from '@sinclair/typebox'
import { toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { MAX_REASON_LENGTH, type Suppression } from './suppressions.ts'

const REASONS = 'hard_bounce, complaint, manual, unsubscribe, or any text as provided'

export const SuppressionRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the suppression.' }),
  account_id: S.Uuid({ description: 'Id of the account.' }),
  email_address: S.Text('The address, in lower case; its domain in A-labels.'),
  reason: S.Text(
    `${REASONS}. unsubscribe stops only mail with transactional: false; every other reason stops all mail.`,
  ),
  source_email_id: S.UuidOrNull('Email that caused it; null when there was none, or it has been deleted.'),
  stream: S.extra(S.TextOrNull('Slug of the stream that the address unsubscribed from; null: every stream.')),
  list_id: S.extra(
    S.UuidOrNull('Contact list that the address unsubscribed from; null: mail to any list and to none.'),
  ),
  created_at: S.Timestamp({ description: 'When it was added.' }),
})
export type SuppressionRecord = Static<typeof SuppressionRecord>

export const SuppressionQuery = Type.Object({
  ...S.PAGE_FIELDS,
  reason: Type.Optional(S.Text('Only those with this reason.')),
  email: Type.Optional(S.Text('Only this address, in any spelling.')),
})

export const NewSuppressionRequest = S.StrictObject({
  email_address: S.Text('Address to suppress.'),
  reason: S.OptionalNullable(Type.String({ maxLength: MAX_REASON_LENGTH }), {
    description:
      'Reason; default manual. unsubscribe (also: unsubscribed, in any case) stops only mail with transactional: false; every other reason stops all mail.',
  }),
})

export const ImportQuery = Type.Object({
  reason: Type.Optional(
    S.Text('Reason for lines without one, such as those of a list of unsubscriptions; default manual.'),
  ),
  dry_run: Type.Optional(
    S.StringEnum(['true', 'false'], { description: 'true: say what an import would do, and store nothing.' }),
  ),
})

export const ImportResult = Type.Object({
  data: Type.Object({
    imported: S.Count('Number of lines that are new on the list.'),
    already_suppressed: S.Count('Number of lines that were already on the list; they stay as they were.'),
    invalid: S.Count('Number of invalid lines.'),
    total: S.Count('Number of lines, without the header and empty ones.'),
    ignored_columns: Type.Array(Type.String(), { description: 'Names of the ignored columns.' }),
  }),
  errors: Type.Array(
    Type.Object({
      line: S.Count('Number of the line in the file; the first is 1.'),
      error: S.Text('What is wrong with it.'),
    }),
    { description: 'The first 100 of the invalid lines.' },
  ),
})
export type ImportResult = Static<typeof ImportResult>

export const suppressionWire = (suppression: Suppression, account_id: string): SuppressionRecord =>
  toWire(SuppressionRecord, suppression, {
    account_id,
    email_address: suppression.address,
    source_email_id: suppression.sourceUuid && formatUuid(suppression.sourceUuid),
    list_id: suppression.listUuid && formatUuid(suppression.listUuid),
  })
