/** @module Wire shapes of emails: validation, types, OpenAPI and serialiser at once. */
import { type Static, Type } from '@sinclair/typebox'

const Nullable = <T extends import('@sinclair/typebox').TSchema>(schema: T, description: string) => Type.Union([schema, Type.Null()], { description })

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
    from: Type.String({ description: 'Sender: `a@example.com` or `Name <a@example.com>`; its domain must be registered.' }),
    to: Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1 })], {
      description: 'One recipient as a string, or several as an array: all are in the To header of one email.',
    }),
    subject: Type.Optional(Nullable(Type.String(), 'Subject; needed unless a template gives it. At most 998 characters.')),
    html_body: Type.Optional(Nullable(Type.String(), 'HTML body.')),
    text_body: Type.Optional(Nullable(Type.String(), 'Text body; made from the HTML when it is missing.')),
    template_alias: Type.Optional(Nullable(Type.String(), 'Alias of a template.')),
    template_data: Type.Optional(Type.Unknown({ description: 'Values for the template.' })),
    cc: Type.Optional(Type.Array(Type.String(), { description: 'Carbon copy recipients.' })),
    bcc: Type.Optional(Type.Array(Type.String(), { description: 'Blind carbon copy recipients; they appear in no header.' })),
    reply_to: Type.Optional(Nullable(Type.String(), 'Reply-To: one address or a comma list.')),
    headers: Type.Optional(Type.Unknown({ description: 'Further headers: a map of names to strings, numbers or booleans. At most 50.' })),
    metadata: Type.Optional(Type.Unknown({ description: 'Your own data, returned as given; at most 16 KiB of JSON.' })),
    tags: Type.Optional(Type.Array(Type.String(), { description: 'At most 20 tags of at most 128 characters.' })),
    attachments: Type.Optional(Nullable(Type.Array(Attachment), 'Files; at most 25 MiB decoded.')),
    send_at: Type.Optional(Nullable(Type.String(), 'When to send (RFC 3339), at most a year ahead; omitted: now.')),
    idempotency_key: Type.Optional(
      Nullable(Type.String({ minLength: 1, maxLength: 256 }), 'A repeated send with the same key returns the first email and makes no new one.'),
    ),
    stream: Type.Optional(Nullable(Type.String(), 'Slug of the message stream; default `transactional`.')),
    tracking: Type.Optional(Nullable(Type.Boolean(), 'Open and click tracking for this email; omitted: the default of the account.')),
    transactional: Type.Optional(Type.Boolean({ description: 'Default true. False adds the List-Unsubscribe headers.' })),
  },
  { additionalProperties: false },
)
export type SendRequest = Static<typeof SendRequest>

export const SendResponse = Type.Object({
  id: Type.String({ format: 'uuid', description: 'Id of the email.' }),
  message_id: Type.String({ description: 'Its Message-ID header, with angle brackets.' }),
  status: Type.String({ description: '`queued` or `scheduled`; of a repeated send, the status now.' }),
  to: Type.String({ description: 'All To recipients, joined with ", ".' }),
  sandbox: Type.Boolean({ description: 'True when the From domain is not verified: the message is captured and leaves for nowhere.' }),
  created_at: Type.String({ format: 'date-time' }),
  scheduled_at: Type.Optional(Type.Union([Type.String({ format: 'date-time' }), Type.Null()])),
})
export type SendResponse = Static<typeof SendResponse>
