/** @module Wire shapes of what one person may ask of an account, by address: to be told, and to be forgotten. */
import { Type } from '@sinclair/typebox'
import { Timestamp, Uuid } from '#platform/http/schemas.ts'
import { PARTS } from './export-parts.ts'

export const PersonQuery = Type.Object({
  email: Type.Optional(Type.String({ description: 'The address of the person, URL-encoded, in any spelling.' })),
})

export const ErasureResult = Type.Object({
  data: Type.Object({
    email_address: Type.String({ description: 'The address, in lower case; its domain in A-labels.' }),
    rows_deleted: Type.Integer({
      description: 'Rows that were removed or emptied so far; the operation has the number in the end.',
    }),
    message: Type.String({ description: 'How far it is, for a person.' }),
  }),
  operation_id: Uuid({ description: 'Operation that erases; `GET /v1/operations/{id}` tells when it is complete.' }),
})

const Records = (description: string) => Type.Array(Type.Unknown(), { description })

export const PersonExport = Type.Object({
  exported_at: Timestamp({ description: 'When it was begun.' }),
  data: Type.Object(
    {
      email_address: Type.String({ description: 'The address, in lower case; its domain in A-labels.' }),
      emails: Records('Emails to the address, as in the list of emails, with recipients, html_body and text_body.'),
      events: Records('What happened to them, as in the detail of an email.'),
      suppressions: Records('What the suppression list says of it.'),
      unsubscribe_events: Records('The events by which it unsubscribed.'),
      inbound_emails: Records('Received mail from and to it, with html_body and text_body.'),
      contacts: Records('Its contacts in all lists.'),
      mailbox_messages: Records('Messages of agent mailboxes from and to it, with html_body and text_body.'),
    },
    { description: 'What is known of the address.' },
  ),
})

export const AccountExport = Type.Object({
  exported_at: Timestamp({ description: 'When it was begun.' }),
  data: Type.Object(
    {
      account: Type.Unknown({ description: 'The account, as GET /v1/account has it.' }),
      ...Object.fromEntries(
        Object.keys(PARTS).map((name) => [
          name,
          Records(`As the list of ${name.replaceAll('_', ' ')} has them; oldest first.`),
        ]),
      ),
    },
    { description: 'Everything of the account.' },
  ),
})
