/** @module JSON shapes of captured mail. */
import { type Static, Type } from '@sinclair/typebox'
import { Nullable, PAGE_FIELDS, StrictObject, StringEnum, Timestamp, Uuid } from '#platform/http/schemas.ts'

export const CapturedQuery = StrictObject({
  ...PAGE_FIELDS,
  q: Type.Optional(
    Type.String({ maxLength: 200, description: 'Text within a recipient, the sender or the subject, in any case.' }),
  ),
  unread: Type.Optional(
    StringEnum(['true', 'false'], { description: 'true: only unread emails; false: only those that were read.' }),
  ),
})
export type CapturedQuery = Static<typeof CapturedQuery>

const ROW_FIELDS = {
  id: Uuid({ description: 'Id of the email, as in /v1/emails.' }),
  from: Type.String({ description: 'The From field, decoded.' }),
  rcpt_to: Type.Array(Type.String(), { description: 'The envelope recipients, Bcc included.' }),
  subject: Type.String({ description: 'The Subject field, decoded.' }),
  received_at: Timestamp({ description: 'When it was captured.' }),
  size_bytes: Type.Integer({ description: 'Octets of the message.' }),
  read: Type.Boolean({ description: 'Whether it was marked as read.' }),
}

export const CapturedRow = Type.Object(ROW_FIELDS)
export type CapturedRow = Static<typeof CapturedRow>

export const CapturedDetail = Type.Object({
  ...ROW_FIELDS,
  mail_from: Type.String({ description: 'The envelope sender: the return path of the first recipient.' }),
  headers: Type.Array(
    Type.Object({
      name: Type.String({ description: 'Name as written.' }),
      value: Type.String({ description: 'Value, unfolded and decoded.' }),
    }),
    { description: 'The header fields in order, of the first 16 KiB.' },
  ),
  text: Nullable(Type.String(), { description: 'The text part; null: none.' }),
  html: Nullable(Type.String(), { description: 'The HTML part; null: none.' }),
  truncated: Type.Boolean({
    description: 'True if the bodies are from the first MiB of a larger message: they may end there, or be missing.',
  }),
  attachments: Type.Array(
    Type.Object({
      filename: Type.String({ description: 'File name.' }),
      content_type: Type.String({ description: 'Media type.' }),
      size: Type.Integer({ description: 'Bytes, decoded.' }),
    }),
    { description: 'In order; numbers in paths start at 0.' },
  ),
})
export type CapturedDetail = Static<typeof CapturedDetail>

export const CapturedChange = StrictObject({
  read: Type.Boolean({ description: 'Whether it is marked as read.' }),
})

export const CapturedDeleted = Type.Object({
  deleted: Type.Integer({ description: 'Number of emails whose captures were deleted.' }),
})

/** What the check found at a link. */
const LINK_RESULTS = ['ok', 'redirected', 'broken', 'unreachable', 'skipped'] as const

export const CheckedLink = Type.Object({
  url: Type.String({ description: 'The link as written; of a tracked link, its target.' }),
  result: StringEnum(LINK_RESULTS, {
    description:
      'ok; redirected: it leads elsewhere and that works; broken: the server reports an error; unreachable: no usable response; skipped: it was not requested.',
  }),
  status: Nullable(Type.Integer(), { description: 'Status of the last response; null: none.' }),
  final_url: Nullable(Type.String(), { description: 'Where the redirects lead; null: there was none.' }),
  reason: Nullable(Type.String(), { description: 'One sentence on why it failed or was skipped.' }),
})
export type CheckedLink = Static<typeof CheckedLink>

export const LinkCheck = Type.Object({
  links: Type.Array(CheckedLink, { description: 'Each link once, in the order of the message.' }),
  truncated: Type.Boolean({ description: 'True if the message has more links than are checked.' }),
})
export type LinkCheck = Static<typeof LinkCheck>
