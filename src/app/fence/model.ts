/** @module Wire shapes of /v1/operator/fence. */
import { type Static, Type } from '@sinclair/typebox'
import { CURSOR_FIELD } from '#features/sending/delivery/control/operator-queue-routes.ts'
import { dateFields } from '#platform/http/date-filter.ts'
import { Count, Filter, Nullable, StrictObject, Text, TextOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'

export const FenceSelector = StrictObject({
  account_id: Filter('Only mail of the account with this id.'),
  domain: Filter('Only mail to this domain.'),
  from_date: dateFields('mail accepted').from_date,
})
export type FenceSelector = Static<typeof FenceSelector>

export const FenceDropRequest = StrictObject({
  ...FenceSelector.properties,
  ...CURSOR_FIELD,
})

export const Fence = Type.Object({
  kind: Text('backup or copy.'),
  instance: Text('Id of this instance, as in its data directory.'),
  taken_at: Nullable(Timestamp(), { description: 'When the backup or copy was made; null: unknown.' }),
  restored_at: Timestamp({ description: 'When the service first started with it.' }),
  recipients: Count('Recipients whose mail waits.'),
  broadcasts: Count('Broadcasts that wait; their emails that were enqueued are among the recipients.'),
  contact_mails: Count('Requests for confirmation, welcomes and due steps of sequences that wait.'),
  imports: Count('Imports of contacts that wait.'),
  group_count: Count('Accounts and domains with waiting mail.'),
  groups: Type.Array(
    Type.Object({
      account_id: Nullable(Uuid(), { description: 'Id of the account; null: it is deleted.' }),
      account: TextOrNull('Name of the account; null: it is deleted.'),
      domain: Text('Domain of the recipients.'),
      recipients: Count('Number of recipients.'),
      accepted_from: Nullable(Timestamp(), { description: 'When the first email was accepted; null: it was deleted.' }),
      accepted_to: Nullable(Timestamp(), { description: 'When the last email was accepted; null: it was deleted.' }),
    }),
    { description: 'The mail by account and domain: the 1,000 with most recipients.' },
  ),
})
export type Fence = Static<typeof Fence>

const IS_ENDED = Type.Boolean({ description: 'Whether nothing waits as restored any more.' })
export const FenceRelease = Type.Object({
  released: Count('Recipients that were released.'),
  due: Count('Recipients among them whose mail is due now; the others keep their time.'),
  is_ended: IS_ENDED,
})
export type FenceRelease = Static<typeof FenceRelease>
export const FenceDrop = Type.Object({
  dropped: Count('Recipients whose mail was cancelled.'),
  is_ended: IS_ENDED,
  next_cursor: TextOrNull('There is more: repeat the request with this `cursor`. Null: all was examined.'),
})
export type FenceDrop = Static<typeof FenceDrop>
