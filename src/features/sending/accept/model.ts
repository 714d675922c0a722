/** @module JSON shapes of send requests and responses, used for validation, types, OpenAPI and serialisation. */
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { EXPIRES_IN_LIMITS } from '#features/setup/streams/model.ts'
import { extra, StrictObject, Text, Timestamp, Uuid, withStrictStatus } from '#platform/http/schemas.ts'

/** @param alsoCalled names that other providers' clients use, for the error about an unknown field */
export const Nullable = <T extends TSchema>(schema: T, description: string, ...alsoCalled: readonly string[]) =>
  Type.Union([schema, Type.Null()], { description, ...describeOtherNames(alsoCalled) })
const describeOtherNames = (names: readonly string[]) => (names.length > 0 ? { 'x-also-called': names } : {})
export const OptionalNullable = <T extends TSchema>(schema: T, description: string, ...alsoCalled: readonly string[]) =>
  Type.Optional(Nullable(schema, description, ...alsoCalled))

/** Free-form maps are checked by hand, because PHP sends an empty map as `[]`; OpenAPI still describes them as maps. */
const OptionalMap = (description: string, ...alsoCalled: readonly string[]) =>
  Type.Optional(
    Type.Unknown({ type: 'object', additionalProperties: true, description, ...describeOtherNames(alsoCalled) }),
  )

const OptionalAddresses = (description: string) =>
  Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())], { description }))

export const Attachment = Type.Object(
  {
    filename: Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'File name as the recipient sees it.',
      'x-also-called': ['name'],
    }),
    content: Type.String({ description: 'The file in base64.', 'x-also-called': ['data', 'base64'] }),
    content_type: OptionalNullable(
      Type.String({ maxLength: 255 }),
      'Media type, such as application/pdf, with its parameters, such as text/csv; charset=iso-8859-1; omitted: that of the file name extension.',
      'type',
      'mime_type',
    ),
    content_id: OptionalNullable(
      Type.String({ maxLength: 255 }),
      'For pictures in the text: the HTML shows this file where it has `cid:` and this id, such as `<img src="cid:logo">`. A file to which the HTML does not refer is an ordinary attachment.',
      'cid',
    ),
    alternative: OptionalNullable(
      Type.Boolean(),
      'True for another form of the text instead of a file: an invitation (text/calendar; method=REQUEST), for which mail programs show buttons to accept, or text/x-amp-html.',
    ),
  },
  { additionalProperties: false },
)

/** Body of a single send; each element of a batch. */
export const SendRequest = Type.Object(
  {
    from: Text('Sender: `a@example.com` or `Name <a@example.com>`; its domain must be registered.'),
    to: Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1 })], {
      description: 'One recipient as a string, or several as an array: all are in the To header of one email.',
      'x-also-called': ['recipient', 'recipients'],
    }),
    subject: OptionalNullable(
      Type.String(),
      'Subject; overrides that of the template, and is required without one. At most 998 characters.',
    ),
    html_body: OptionalNullable(
      Type.String(),
      "HTML body, sent unchanged; overrides the template's. At most 2 MiB in UTF-8.",
    ),
    text_body: OptionalNullable(
      Type.String(),
      "Text body, sent unchanged; overrides the template's. Derived from the HTML if omitted. At most 2 MiB in UTF-8.",
      'body',
      'plain',
    ),
    template_alias: OptionalNullable(
      Type.String(),
      'Alias of the template that renders subject, html_body and text_body where they are omitted.',
      'template_id',
    ),
    locale: OptionalNullable(
      Type.String(),
      'Language of the recipient as a BCP 47 tag: for `de-AT` the template in de-AT is used, else that in de, else the one without a locale.',
      'language',
    ),
    template_data: OptionalMap(
      'Values for the template: names and values of its variables; at most 1 MiB of JSON.',
      'template_model',
      'template_variables',
      'variables',
    ),
    cc: OptionalAddresses('Carbon copy recipients: one as a string, or an array.'),
    bcc: OptionalAddresses('Blind carbon copy recipients, which appear in no header: one as a string, or an array.'),
    reply_to: OptionalNullable(Type.String(), 'Reply-To: one address, or several separated by commas.'),
    headers: OptionalMap(
      'Extra headers: a map of names to strings, numbers or booleans. At most 50. List-Unsubscribe only if transactional is true.',
    ),
    metadata: OptionalMap('Your own data, returned unchanged; at most 16 KiB of JSON.'),
    tags: Type.Optional(
      Type.Array(Type.String(), {
        description: 'At most 20 tags of at most 128 characters.',
        'x-also-called': ['tag', 'categories'],
      }),
    ),
    attachments: OptionalNullable(Type.Array(Attachment), 'Files; at most 25 MiB decoded.'),
    send_at: OptionalNullable(
      Type.String(),
      'When to send (RFC 3339), at most a year ahead; omitted: now.',
      'scheduled_at',
    ),
    expires_in: OptionalNullable(
      Type.Integer(EXPIRES_IN_LIMITS),
      'Seconds, from acceptance or `send_at`, after which a recipient to whom the mail was not delivered ends as bounced with category `expired`: 60 to 432000 (5 days), such as 600 for a code that is valid for 10 minutes. Omitted: that of the stream.',
    ),
    idempotency_key: OptionalNullable(
      Type.String({ minLength: 1, maxLength: 256 }),
      'A repeated send with the same key returns the first email and creates no new one.',
    ),
    stream: OptionalNullable(Type.String(), 'Slug of the message stream; default `transactional`.', 'message_stream'),
    tracking: OptionalNullable(
      Type.Union([
        Type.Boolean(),
        StrictObject(
          {
            opens: Type.Optional(Type.Boolean({ description: 'Whether opens are tracked.' })),
            clicks: Type.Optional(Type.Boolean({ description: 'Whether clicks are tracked.' })),
          },
          { minProperties: 1 },
        ),
      ]),
      'Open and click tracking of the HTML of this email, of both or by part; what is omitted: the default of the account. Takes effect only on a plan with tracking; on others it is only stored.',
      'track_opens',
      'track_links',
      'track_clicks',
    ),
    transactional: Type.Optional(
      Type.Boolean({
        description:
          'Default true. False is for marketing: the mail has the List-Unsubscribe headers for one-click unsubscribe, and is not sent to recipients who unsubscribed.',
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [
      {
        from: 'Example <news@example.com>',
        to: 'ada@example.net',
        subject: 'Your invoice',
        html_body: '<p>Thank you.</p>',
        tags: ['invoice'],
      },
    ],
  },
)
export type SendRequest = Static<typeof SendRequest>

/**
 * For the `detail` of a route that takes an idempotency key. Parameters described here replace those that the route
 * declares, so it describes all.
 */
export const takesIdempotencyKey = (inPath: Readonly<Record<string, string>> = {}) => ({
  parameters: [
    ...Object.entries(inPath).map(([name, description]) => ({
      name,
      in: 'path' as const,
      required: true,
      description,
      schema: { type: 'string' as const },
    })),
    {
      name: 'Idempotency-Key',
      in: 'header' as const,
      required: false,
      description: 'Repeating a request with the same key returns the first response and sends nothing new.',
      schema: { type: 'string' as const, minLength: 1, maxLength: 256 },
    },
  ],
})

/** Fields of every response that may be a replay. */
export const REPLAY_FIELDS = {
  replayed: extra(
    Type.Optional(
      Type.Boolean({
        description: 'True if the idempotency key was used before: this is the first email, and nothing new was sent.',
      }),
    ),
  ),
  mismatch: extra(
    Type.Optional(
      Type.Boolean({ description: 'True, together with `replayed`, if this request differs from the first.' }),
    ),
  ),
}

export const SendResponse = Type.Object({
  id: Uuid({ description: 'Id of the email.' }),
  message_id: Text('Its Message-ID header, with angle brackets.'),
  status: withStrictStatus(
    Text('`queued` or `scheduled`; `draft`: a person must release it; of a repeated send, the status now.'),
  ),
  to: Text('All To recipients, joined with ", ".'),
  sandbox: Type.Boolean({
    description:
      'True if the message is not sent: the From domain was never verified, so it is captured, or its recipients are at the simulator.',
  }),
  created_at: Timestamp({ description: 'When it was accepted.' }),
  scheduled_at: OptionalNullable(Timestamp(), 'When it will be sent, if later than now.'),
  ...REPLAY_FIELDS,
})
export type SendResponse = Static<typeof SendResponse>

/** Each element of `emails` is checked separately: an error is reported in `errors` and does not fail the others. */
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
  operation_id: Uuid({ description: 'The operation of the batch.' }),
  data: Type.Array(SendResponse, { description: 'The accepted emails, in the order of the request.' }),
  errors: Type.Array(
    Type.Object({
      index: Type.Integer({ minimum: 0, description: 'Position in the request, from 0.' }),
      error: Text('Why this email was not accepted.'),
    }),
    { description: 'The emails that were not accepted.' },
  ),
})
export type BatchResponse = Static<typeof BatchResponse>
