/** @module JSON of what an account has of one recipient. */
import { type Static, Type } from '@sinclair/typebox'
import { SuppressionRecord } from '#features/audience/suppressions/model.ts'
import { EmailRow, StateField } from '#features/sending/emails/model.ts'
import { CONTACT_STATUSES } from '#features/setup/contact-store/status.ts'
import * as S from '#platform/http/schemas.ts'

const PersonSuppression = Type.Object(
  {
    ...SuppressionRecord.properties,
    sentence: S.Text('Which mail it stops, and why.'),
    source_email: S.NullablePart('Email that caused it; null when there was none, or it has been deleted.', {
      id: S.Uuid({ description: 'Id of the email.' }),
      subject: S.Text('Subject.'),
      created_at: S.Timestamp({ description: 'When it was accepted.' }),
    }),
    added_by: S.NullablePart('Who added it; null: an import, or no longer known.', {
      type: S.Text('user, api_key, operator, recipient, or system: this service.'),
      id: S.Text('Id of the user or the key; otherwise as in the audit log.'),
      name: S.TextOrNull('Name of the user or the key; null: it has none, or was deleted.'),
    }),
  },
  { title: 'PersonSuppression' },
)
export type PersonSuppression = Static<typeof PersonSuppression>

const PersonEmail = Type.Object(
  {
    ...EmailRow.properties,
    recipient_state: { ...StateField, description: 'What became of the copy of this person.' },
  },
  { title: 'PersonEmail' },
)

export const PersonRecord = Type.Object({
  address: S.Text('The address, in lower case; its domain in A-labels.'),
  display_names: Type.Array(Type.String(), {
    description: 'Names under which it got the newest emails, newest first.',
  }),
  can_receive: Type.Boolean({
    description: 'False while a suppression stops all mail to the address. True also for one that never got mail.',
  }),
  sentence: S.Text('Which mail the address gets, and why not all.'),
  suppressions: Type.Array(PersonSuppression, { description: 'The newest 20.' }),
  emails: S.Part('Emails to the address.', {
    total: S.Count('Number of emails; 10,001 means more.'),
    first_at: S.TimeOrNull('When the first stored one was accepted; null: there is none.'),
    last_at: S.TimeOrNull('When the last one was accepted.'),
    counted: S.Count('Number of the newest emails that the fields below are about: at most 500.'),
    by_state: Type.Record(Type.String(), Type.Integer(), { description: 'Their number by `recipient_state`.' }),
    last_opened_at: S.TimeOrNull('When one of them was last opened; null: none was, or opens are not tracked.'),
    last_clicked_at: S.TimeOrNull('When a link of one of them was last clicked.'),
  }),
  recent_emails: Type.Array(PersonEmail, { description: 'The newest 20.' }),
  lists: S.Nullable(
    Type.Array(
      Type.Object({
        id: S.Uuid({ description: 'Id of the contact list.' }),
        name: S.Text('Its name.'),
        status: S.StringEnum(CONTACT_STATUSES, { description: 'Status of the contact.' }),
        subscribed_at: S.Timestamp({ description: 'When it was added, confirmed, or resubscribed.' }),
        unsubscribed_at: S.TimeOrNull('When it left the list; null: it has not.'),
      }),
    ),
    { description: 'Contact lists that the address is on, at most 100; null without the scope contacts:read.' },
  ),
  received: S.Nullable(
    Type.Array(
      Type.Object({
        id: S.Uuid({ description: 'Id of the inbound email.' }),
        subject: S.Text('Subject.'),
        created_at: S.Timestamp({ description: 'When it was received.' }),
      }),
    ),
    { description: 'The newest 10 inbound emails from the address; null without the scope inbound:read.' },
  ),
  mailboxes: S.Nullable(
    Type.Array(
      Type.Object({
        id: S.Uuid({ description: 'Id of the agent mailbox.' }),
        address: S.Text('Its address.'),
        messages: S.Count('Messages from the person.'),
        last_message_at: S.Timestamp({ description: 'When the last one arrived.' }),
      }),
    ),
    {
      description:
        'The 10 agent mailboxes that last got a message from the address; null without the scope mailboxes:read.',
    },
  ),
  erasure: S.NullablePart('Present while the person is being erased, and after it while a suppression remembers it.', {
    state: S.StringEnum(['running', 'erased'], { description: '`running`: rows are still being removed.' }),
    operation_id: S.Nullable(S.Uuid(), { description: 'Operation of a running erasure.' }),
  }),
})
export type PersonRecord = Static<typeof PersonRecord>
