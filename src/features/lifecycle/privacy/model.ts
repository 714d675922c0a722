/** @module Wire shapes of the export and erasure of a person, and of the account export. */
import { Type } from '@sinclair/typebox'
import { Count, Part, Text, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { PARTS } from './export-parts.ts'

export const PersonQuery = Type.Object({
  email: Type.Optional(Text('The address of the person, URL-encoded, in any spelling.')),
})

export const ErasureResult = Type.Object({
  data: Type.Object({
    email_address: Text('The address, in lower case; its domain in A-labels.'),
    rows_deleted: Count('Rows removed or emptied so far; the operation has the final number.'),
    message: Text('Human-readable progress.'),
  }),
  operation_id: Uuid({ description: 'Operation of the erasure; `GET /v1/operations/{id}` shows when it is complete.' }),
})

const Records = (description: string) => Type.Array(Type.Unknown(), { description })

export const PersonExport = Type.Object({
  exported_at: Timestamp({ description: 'When it was begun.' }),
  data: Part('Data of the address.', {
    email_address: Text('The address, in lower case; its domain in A-labels.'),
    emails: Records('Emails to the address, as in the list of emails, with recipients, html_body and text_body.'),
    events: Records('Events of these emails, as in the detail of an email.'),
    suppressions: Records('Its entries in the suppression list.'),
    unsubscribe_events: Records('Its unsubscribe events.'),
    inbound_emails: Records('Received mail from and to it, with html_body and text_body.'),
    contacts: Records('Its contacts in all lists.'),
    mailbox_messages: Records('Messages of agent mailboxes from and to it, with html_body and text_body.'),
  }),
})

export const AccountExport = Type.Object({
  exported_at: Timestamp({ description: 'When it was begun.' }),
  data: Part('All data of the account.', {
    account: Type.Unknown({ description: 'The account, as in GET /v1/account.' }),
    ...Object.fromEntries(
      Object.keys(PARTS).map((name) => [
        name,
        Records(`As in the list of ${name.replaceAll('_', ' ')}; oldest first.`),
      ]),
    ),
  }),
})
