/** @module Wire shapes of send requests and their responses: validation, types, OpenAPI and serialiser at once. */
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { Timestamp, Uuid } from '#platform/http/schemas.ts'

const Nullable = <T extends TSchema>(schema: T, description: string) =>
  Type.Union([schema, Type.Null()], { description })
const OptionalNullable = <T extends TSchema>(schema: T, description: string) =>
  Type.Optional(Nullable(schema, description))

/** Free maps are checked by hand, because PHP sends an empty one as `[]`; the description still says that they are maps. */
const createMapSchema = (description: string) =>
  Type.Unknown({ type: 'object', additionalProperties: true, description })

export const Attachment = Type.Object(
  {
    filename: Type.String({ minLength: 1, maxLength: 255, description: 'File name as the recipient sees it.' }),
    content: Type.String({ description: 'The file in base64.' }),
    content_type: Type.String({ minLength: 1, maxLength: 255, description: 'Media type, such as application/pdf.' }),
  },
  { additionalProperties: false },
)

/** Body of a single send; each element of a batch. */
export const SendRequest = Type.Object(
  {
    from: Type.String({
      description: 'Sender: `a@example.com` or `Name <a@example.com>`; its domain must be registered.',
    }),
    to: Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1 })], {
      description: 'One recipient as a string, or several as an array: all are in the To header of one email.',
    }),
    subject: Type.Optional(
      Nullable(Type.String(), 'Subject; needed unless a template gives it, and wins over it. At most 998 characters.'),
    ),
    html_body: Type.Optional(
      Nullable(Type.String(), "HTML body, as it is; wins over the template's. At most 2 MiB in UTF-8."),
    ),
    text_body: Type.Optional(
      Nullable(
        Type.String(),
        "Text body, as it is; wins over the template's. Made from the HTML when there is none. At most 2 MiB in UTF-8.",
      ),
    ),
    template_alias: Type.Optional(
      Nullable(Type.String(), 'Alias of a template, rendered for what subject, html_body and text_body leave out.'),
    ),
    template_data: Type.Optional(
      createMapSchema('Values for the template: names and values of its variables; at most 1 MiB of JSON.'),
    ),
    cc: Type.Optional(Type.Array(Type.String(), { description: 'Carbon copy recipients.' })),
    bcc: Type.Optional(
      Type.Array(Type.String(), { description: 'Blind carbon copy recipients; they appear in no header.' }),
    ),
    reply_to: Type.Optional(Nullable(Type.String(), 'Reply-To: one address or a comma list.')),
    headers: Type.Optional(
      createMapSchema(
        'Further headers: a map of names to strings, numbers or booleans. At most 50. List-Unsubscribe: only when transactional is true.',
      ),
    ),
    metadata: Type.Optional(createMapSchema('Your own data, returned as given; at most 16 KiB of JSON.')),
    tags: Type.Optional(Type.Array(Type.String(), { description: 'At most 20 tags of at most 128 characters.' })),
    attachments: Type.Optional(Nullable(Type.Array(Attachment), 'Files; at most 25 MiB decoded.')),
    send_at: Type.Optional(Nullable(Type.String(), 'When to send (RFC 3339), at most a year ahead; omitted: now.')),
    idempotency_key: Type.Optional(
      Nullable(
        Type.String({ minLength: 1, maxLength: 256 }),
        'A repeated send with the same key returns the first email and makes no new one.',
      ),
    ),
    stream: Type.Optional(Nullable(Type.String(), 'Slug of the message stream; default `transactional`.')),
    tracking: Type.Optional(
      Nullable(
        Type.Boolean(),
        'Open and click tracking of the HTML of this email; omitted: the default of the account. Only on a plan that has it; kept as given on the others.',
      ),
    ),
    transactional: Type.Optional(
      Type.Boolean({
        description:
          'Default true. False is for marketing: the mail carries the List-Unsubscribe headers of one-click unsubscribe, and is not sent to who unsubscribed.',
      }),
    ),
  },
  { additionalProperties: false },
)
export type SendRequest = Static<typeof SendRequest>

/** Of whatever answers to an idempotency key with an email. */
export const REPLAY_FIELDS = {
  replayed: Type.Optional(
    Type.Boolean({
      description: 'True when the idempotency key was used before: this is the first email, and nothing new was sent.',
    }),
  ),
  mismatch: Type.Optional(
    Type.Boolean({ description: 'True beside `replayed` when this request has other content than the first.' }),
  ),
}

export const SendResponse = Type.Object({
  id: Uuid({ description: 'Id of the email.' }),
  message_id: Type.String({ description: 'Its Message-ID header, with angle brackets.' }),
  status: Type.String({ description: '`queued` or `scheduled`; of a repeated send, the status now.' }),
  to: Type.String({ description: 'All To recipients, joined with ", ".' }),
  sandbox: Type.Boolean({
    description: 'True when the From domain never was verified: the message is captured and leaves for nowhere.',
  }),
  created_at: Timestamp({ description: 'When it was accepted.' }),
  scheduled_at: OptionalNullable(Timestamp(), 'When it will be sent, if later than now.'),
  ...REPLAY_FIELDS,
})
export type SendResponse = Static<typeof SendResponse>

/** `emails` are checked one by one: a fault in one is told in `errors` and does not fail the others. */
export const BatchRequest = Type.Object(
  {
    emails: Type.Array(Type.Unknown({ ...SendRequest }), {
      minItems: 1,
      maxItems: 500,
      description: 'Send requests, at most 500.',
    }),
  },
  { additionalProperties: false },
)

export const BatchResponse = Type.Object({
  operation_id: Uuid({ description: 'The operation under which the batch is listed.' }),
  data: Type.Array(SendResponse, { description: 'The accepted emails, in the order of the request.' }),
  errors: Type.Array(
    Type.Object({
      index: Type.Integer({ minimum: 0, description: 'Position in the request, from 0.' }),
      error: Type.String({ description: 'Why this email was not accepted.' }),
    }),
    { description: 'The emails that were not accepted.' },
  ),
})
export type BatchResponse = Static<typeof BatchResponse>
