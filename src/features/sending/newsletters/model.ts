/** @module Wire shapes of newsletters. */
import { type Static, Type } from '@sinclair/typebox'
import { SendAt } from '#features/sending/broadcasts/model.ts'
import * as S from '#platform/http/schemas.ts'
import { KiB, MiB } from '#platform/units.ts'
import { NEWSLETTER_STATUSES } from './states.ts'

export const MAX_SUBJECT_LENGTH = 998
const MAX_BODY_LENGTH = 1 * MiB
export const MAX_DATA_BYTES = 64 * KiB
/** Lists omit larger bodies, because a page has up to a hundred newsletters. */
export const MAX_LISTED_BYTES = 64 * KiB

const FIELDS = {
  id: S.Uuid({ description: 'Id of the newsletter.' }),
  account_id: S.Uuid({ description: 'Account it belongs to.' }),
  list_id: S.Uuid({ description: 'Contact list that it is sent to.' }),
  subject: Type.String({ description: 'Source of the subject.' }),
  from_address: Type.String({ description: 'Sender.' }),
  html_body: S.Nullable(Type.String(), { description: 'Source of the HTML body; null when it has none of its own.' }),
  text_body: S.Nullable(Type.String(), { description: 'Source of the text body; null when it has none of its own.' }),
  template_id: S.Nullable(S.Uuid(), { description: 'Template that supplies missing bodies.' }),
  template_data: S.Nullable(Type.Unknown(), { description: 'Values that all contacts share, as provided.' }),
  reply_to: S.Nullable(Type.String(), { description: 'Reply-To.' }),
  stream: S.extra(
    S.Nullable(Type.String(), { description: 'Slug of its message stream; null: that of all broadcasts.' }),
  ),
  status: Type.String({ description: 'draft, scheduled, sending, sent or failed.' }),
  operation_id: S.Nullable(S.Uuid(), { description: 'The operation that sends it; null for a draft.' }),
  scheduled_at: S.Nullable(S.Timestamp(), { description: 'When it starts or started, if it was scheduled.' }),
  sent_at: S.Nullable(S.Timestamp(), { description: 'When all its emails were enqueued for delivery.' }),
  total_recipients: S.Nullable(Type.Integer(), { description: 'Number of recipients at its start.' }),
  created_at: S.Timestamp({ description: 'When it was created.' }),
  updated_at: S.Timestamp({ description: 'When it or its status last changed.' }),
}

export const NewsletterRecord = Type.Object(FIELDS)
export type NewsletterRecord = Static<typeof NewsletterRecord>

export const NewsletterRow = Type.Object({
  ...FIELDS,
  truncated: S.extra(
    Type.Boolean({
      description: `True when a body of more than ${MAX_LISTED_BYTES} bytes is omitted (null); GET of the newsletter returns it.`,
    }),
  ),
})
export type NewsletterRow = Static<typeof NewsletterRow>

const RENDERED_NOTE = 'In Jinja syntax, rendered for each contact.'
const ListId = Type.String({ description: 'Id of the contact list that it is sent to.' })
const Subject = Type.String({
  minLength: 1,
  maxLength: MAX_SUBJECT_LENGTH,
  description: `Subject. ${RENDERED_NOTE}`,
})
const FromAddress = S.Text('Sender: `a@example.com` or `Name <a@example.com>`; its domain must be registered.')
/** Its limit in bytes is checked when it is sent. */
const Body = Type.String({ maxLength: MAX_BODY_LENGTH })
const OPTIONAL_FIELDS = {
  html_body: S.OptionalNullable(Body, { description: `HTML body. ${RENDERED_NOTE}` }),
  text_body: S.OptionalNullable(Body, { description: `Text body. ${RENDERED_NOTE}` }),
  template_id: S.OptionalNullable(Type.String(), {
    description: 'Id of a template that supplies omitted bodies, in its version at the time of sending.',
  }),
  template_data: S.OptionalNullable(S.FreeMap(), {
    description: `Values that all contacts share; at most ${MAX_DATA_BYTES} bytes of JSON.`,
  }),
  reply_to: S.OptionalNullable(Type.String(), {
    description: 'Reply-To: one address, or several separated by commas.',
  }),
  stream: S.OptionalNullable(Type.String(), {
    description: 'Slug of the message stream, from which recipients unsubscribe; omitted: `broadcast`.',
  }),
}

export const NewNewsletter = S.StrictObject(
  { list_id: ListId, subject: Subject, from_address: FromAddress, ...OPTIONAL_FIELDS },
  {
    examples: [
      {
        list_id: '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24',
        subject: 'News for {{ contact.name }}',
        from_address: 'Ada <ada@example.com>',
        text_body: 'Hello {{ contact.name }}.\n\nUnsubscribe: {{ unsubscribe_url }}',
      },
    ],
  },
)

export const NewsletterChangeBody = S.StrictObject(
  {
    list_id: Type.Optional(ListId),
    subject: Type.Optional(Subject),
    from_address: Type.Optional(FromAddress),
    ...OPTIONAL_FIELDS,
  },
  {
    description: 'At least one field. Omitted fields keep their value; null removes a value.',
    examples: [{ subject: 'Better news for {{ contact.name }}' }],
  },
)

export const SendNewsletter = S.StrictObject({
  send_at: SendAt,
  max_recipients: S.OptionalNullable(Type.Integer({ minimum: 0 }), {
    description:
      'If there are more recipients than this, the response is a 409 and nothing is sent; omitted: no limit.',
  }),
})

export const NewsletterQuery = Type.Object({
  ...S.ROW_RANGE_FIELDS,
  status: Type.Optional(S.StringEnum(NEWSLETTER_STATUSES, { description: 'Only newsletters with this status.' })),
})
