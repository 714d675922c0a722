/** @module JSON shapes of emails, used for validation, types, OpenAPI and serialisation. */
import { type Static, Type } from '@sinclair/typebox'
import { ContentState } from '#features/core/app/stored-content.ts'
import { EmailEvent } from '#features/core/events/model.ts'
import { Nullable, OptionalNullable, SendResponse } from '#features/sending/accept/model.ts'
import { ENGAGEMENTS } from '#features/sending/queue/settle.ts'
import { STATUSES } from '#features/sending/queue/status.ts'
import { SUPPRESSION_SCOPES } from '#features/setup/suppression-store/check.ts'
import { dateFields } from '#platform/http/date-filter.ts'
import {
  Count,
  extra,
  PAGE_FIELDS,
  StrictObject,
  StringEnum,
  Text,
  Timestamp,
  Uuid,
  withStrictStatus,
} from '#platform/http/schemas.ts'

const EMAIL_FIELDS = {
  id: Uuid({ description: 'Id of the email.' }),
  account_id: Uuid({ description: 'Account that sent it.' }),
  message_id: Text('Message-ID header, with angle brackets.'),
  from_address: Text('Sender as given.'),
  to_address: Text('First To recipient.'),
  cc: Type.Array(Type.String(), { description: 'Cc addresses.' }),
  bcc: Type.Array(Type.String(), { description: 'Bcc addresses.' }),
  subject: Text('Subject.'),
  tags: Type.Array(Type.String(), { description: 'Tags.' }),
  status: withStrictStatus(
    Text('queued, scheduled, processing, sent, bounced, failed, rejected, cancelled, uncertain or draft.'),
  ),
  attempts: Count('Highest number of attempts at one of its recipients.'),
  max_attempts: Count('Attempts in the retry schedule until the mail expires.'),
  suppress_list_management_header: Type.Boolean({ description: 'True if the List-Unsubscribe headers are omitted.' }),
  created_at: Timestamp({ description: 'When it was accepted.' }),
  updated_at: Timestamp({ description: 'When its status last changed.' }),
  attachments: OptionalNullable(
    Type.Array(
      Type.Object({
        filename: Text('File name.'),
        content_type: Text('Media type with its parameters.'),
        content_id: Type.Optional(Text('Id by which the HTML may refer to it, if it has one.')),
        alternative: extra(
          Type.Optional(Type.Boolean({ description: 'True if it is another form of the text, not a file.' })),
        ),
        size: Count('Bytes, decoded.'),
      }),
    ),
    'Attachments without their content; size in bytes.',
  ),
  delivery_started_at: OptionalNullable(
    Timestamp(),
    'Start of the DATA phase; null before it and after a definite rejection.',
  ),
  domain_id: OptionalNullable(Uuid(), 'Domain that signs it.'),
  error_message: OptionalNullable(Type.String(), 'Why it was not delivered, or not yet.'),
  expires_at: extra(
    OptionalNullable(Timestamp(), 'When open recipients end as expired; null: after the default time of the service.'),
  ),
  expires_in: extra(
    OptionalNullable(
      Type.Integer(),
      'Seconds until then, from acceptance or scheduled_at, as given or that of the stream.',
    ),
  ),
  headers: Type.Record(Type.String(), Type.Unknown(), { description: 'Extra headers as given; {} if none.' }),
  idempotency_key: OptionalNullable(Type.String(), 'Idempotency key, as given in the body or the header.'),
  metadata: Type.Record(Type.String(), Type.Unknown(), { description: 'Your own data as given; {} if none.' }),
  next_retry_at: OptionalNullable(Timestamp(), 'When a deferred recipient is retried; the earliest of several.'),
  operation_id: OptionalNullable(Uuid(), 'Operation of its batch, broadcast or newsletter.'),
  reply_to: OptionalNullable(Type.String(), 'Reply-To.'),
  scheduled_at: OptionalNullable(Timestamp(), 'When it is scheduled to be sent.'),
  sending_ip: OptionalNullable(Type.String(), 'Source address of the delivery.'),
  sent_at: OptionalNullable(Timestamp(), 'When a receiving server first accepted it.'),
  smtp_response: OptionalNullable(Type.String(), 'Last reply of the receiving server.'),
  stream_id: OptionalNullable(Uuid(), 'Message stream.'),
  template_data: OptionalNullable(Type.Unknown(), 'Template values as given.'),
  template_id: OptionalNullable(Uuid(), 'Its template.'),
  tracking_override: OptionalNullable(
    Type.Boolean(),
    'Tracking of this email, true if it is on for opens or for clicks; null: the default of the account.',
  ),
}

export const Email = Type.Object(EMAIL_FIELDS)
export type Email = Static<typeof Email>

const OptionalText = (description: string) => Type.Optional(Text(description))

export const EmailQuery = Type.Object({
  ...PAGE_FIELDS,
  status: Type.Optional(
    StringEnum([...STATUSES, 'delivered'], { description: 'Only emails with this status; `delivered` means `sent`.' }),
  ),
  engagement: Type.Optional(
    StringEnum(ENGAGEMENTS, {
      description: 'Only emails that a recipient opened, clicked or complained about. Machines do not count.',
    }),
  ),
  ...dateFields('emails accepted'),
  operation_id: OptionalText('Only emails of this batch, broadcast or newsletter.'),
  q: OptionalText(
    'Only emails that have all of these words, at most 20: each begins the address of a recipient or of the sender, its domain (`example.c`, `@example.com`), or a word of their names or of the subject; case and accents are ignored. Or the id of an email, or its Message-ID.',
  ),
  to: OptionalText(
    'Only emails to this address, in To, Cc or Bcc; `@example.com`: to any address of that domain. `bob`, `bob@exa`, `@exa`: to any that begins so. Case is ignored.',
  ),
  from: OptionalText(
    'Only emails from this address; `@example.com`: from any address of exactly that domain; or how either begins. Case is ignored.',
  ),
  subject: OptionalText(
    'Only emails with all of these whole words in the subject, in any order; case and accents are ignored. The subject of a broadcast is searched before rendering.',
  ),
  tag: OptionalText('Only emails with exactly this tag.'),
  stream: OptionalText('Only emails of the stream with this slug.'),
  domain: OptionalText(
    'Only emails of your domain with this name, the one that signs them; it may cover senders at its subdomains.',
  ),
  message_id: OptionalText(
    'Only emails with this Message-ID: ours, or the one that the client chose when it submitted the email by SMTP. With or without its angle brackets.',
  ),
})

/** The statuses, of which `queued` and `sent` are divided. */
const STATES = [...STATUSES, 'held', 'deferred', 'captured', 'complained'] as const
export type State = (typeof STATES)[number]

export const StateField = StringEnum(STATES, {
  description:
    'Its status, more precisely: `held` and `deferred` instead of `queued`, `captured` instead of `sent` if it was not sent, `complained` if a recipient reported it as spam.',
})

const ROW_FIELDS = {
  state: extra(StateField),
  to: extra(Text('All To recipients, joined with ", ".')),
  sandbox: extra(Type.Boolean({ description: 'True if it was only captured or simulated.' })),
  engagement: extra(
    Type.Array(StringEnum(ENGAGEMENTS), {
      description: 'What a recipient did with it: `opened`, `clicked`, `complained`; empty: nothing that is known.',
    }),
  ),
}

export const EmailRow = Type.Object({ ...EMAIL_FIELDS, ...ROW_FIELDS })
export type EmailRow = Static<typeof EmailRow>

export const EmailRecipient = Type.Object(
  {
    address: Text('Address.'),
    kind: Text('to, cc or bcc.'),
    status: Text('As the status of an email.'),
    attempts: Count('Attempts at this recipient.'),
    next_retry_at: Nullable(Timestamp(), 'When it is retried.'),
    delivery_started_at: Nullable(Timestamp(), 'Start of the DATA phase.'),
    delivered_at: Nullable(Timestamp(), 'When the receiving server accepted it.'),
    smtp_response: Nullable(Type.String(), 'Last reply of the receiving server.'),
    sending_ip: Nullable(Type.String(), 'Source address of the last session.'),
    bounce_type: Nullable(Type.String(), 'hard or soft.'),
    bounce_category: Nullable(
      Type.String(),
      'Why it bounced: invalid_recipient, mailbox_full, policy, expired and others.',
    ),
  },
  { title: 'EmailRecipient' },
)
export type EmailRecipient = Static<typeof EmailRecipient>

const RESPONSIBLE = ['nobody', 'recipient', 'sender', 'operator'] as const
export type Responsible = (typeof RESPONSIBLE)[number]

export const WhoMustAct = StringEnum(RESPONSIBLE, {
  description:
    '`nobody`: nothing is to be done, or retries are enough; `recipient`: the recipient or the operator of the receiving server; `sender`: you; `operator`: of this service.',
})

export const RecipientExplanation = Type.Object(
  {
    address: Text('Address.'),
    state: StateField,
    sentence: Text('What happened, and why.'),
    who_must_act: WhoMustAct,
    advice: Nullable(Type.String(), 'What to do; null: nothing more than the sentence says.'),
    next_at: Nullable(Timestamp(), 'When it is attempted next, or expires; null if neither is going to happen.'),
    tried_until: extra(Nullable(Timestamp(), 'Until when it is tried; null if it has ended.')),
    at: extra(Nullable(Timestamp(), 'When the last attempt ended; null without one, or when its events are deleted.')),
    server: extra(Nullable(Type.String(), 'Last receiving server: name and IP address.')),
    reply: extra(Nullable(Type.String(), 'Last reply of a receiving server, often with its own id of the message.')),
    suppression: extra(
      Nullable(
        Type.Object({
          reason: Text('hard_bounce, complaint, unsubscribe, manual, or as provided.'),
          stops: StringEnum(SUPPRESSION_SCOPES, {
            description: '`all` mail, or `marketing`: mail with `transactional: false`.',
          }),
          stream: Nullable(Type.String(), 'Only mail of the stream with this slug; null: of every stream.'),
          list: Nullable(Type.String(), 'Only mail to the contact list with this name; null: to every list.'),
          created_at: Timestamp({ description: 'Since when.' }),
          source_email_id: Nullable(Uuid(), 'Email that caused it; null: none, or it is deleted.'),
        }),
        'What stops mail of the same kind to the address now; null: nothing.',
      ),
    ),
    further_mail: extra(
      Nullable(Type.String(), 'What becomes of further mail to the address, after a bounce, complaint or suppression.'),
    ),
  },
  { title: 'RecipientExplanation' },
)
export type RecipientExplanation = Static<typeof RecipientExplanation>

export const EMAIL_ACTIONS = [
  'release',
  'retry',
  'cancel',
  'reschedule',
  'resend',
  'retry_dead_letter',
  'remove_suppression',
] as const

export const EmailAction = Type.Object(
  {
    name: StringEnum(EMAIL_ACTIONS, { description: 'What can be done.' }),
    method: Text('Method of the request that does it.'),
    path: Text('Path of the request.'),
    recipient: Nullable(Type.String(), 'Address that it is for; null: for the email.'),
  },
  { title: 'EmailAction' },
)
export type EmailAction = Static<typeof EmailAction>

const BODY_FIELDS = {
  html_body: OptionalNullable(Type.String(), 'HTML body.'),
  text_body: OptionalNullable(Type.String(), 'Text body.'),
}

export const EmailChange = StrictObject({
  send_at: Nullable(
    Type.String(),
    'When to send (RFC 3339), at most a year ahead; null, or a time up to five minutes ago: now.',
  ),
})
export type EmailChange = Static<typeof EmailChange>

export const ResendRequest = StrictObject({
  to: Type.Optional(
    Type.Array(Type.String(), {
      minItems: 1,
      maxItems: 1000,
      description:
        'Only these recipients of the email; omitted: all. Each stays in To, Cc or Bcc; if none is in To, those in Cc, or a single one in Bcc, are put there.',
    }),
  ),
})
export type ResendRequest = Static<typeof ResendRequest>

export const ResendResponse = Type.Object({
  ...SendResponse.properties,
  warnings: extra(
    Type.Optional(
      Type.Array(Type.String(), {
        description:
          'One sentence for each recipient who gets or may get it a second time, or who is suppressed and gets none.',
      }),
    ),
  ),
})

export const EmailSource = Type.Object({
  headers: Text(
    'The header fields as composed, lines ending in CRLF: without DKIM-Signature, which is added at each attempt, and with the tokens of List-Unsubscribe hidden. After the content was deleted, without Content-Type.',
  ),
  source: Nullable(
    Type.String(),
    'The whole message, headers included, with the size in place of the content of each attachment, and links as you sent them. Null if the content is no longer stored, is missing, or only the recipient may read it.',
  ),
  truncated: Type.Boolean({ description: 'True if the source was longer than 1 MiB and ends there.' }),
})
export type EmailSource = Static<typeof EmailSource>

export const EmailDetail = Type.Object({
  ...EMAIL_FIELDS,
  ...ROW_FIELDS,
  ...BODY_FIELDS,
  content: extra(ContentState),
  resend_of: extra(Nullable(Uuid(), 'Id of the email that this one repeats; null: none.')),
  delivered_at: extra(Nullable(Timestamp(), 'When a receiving server first accepted it.')),
  recipients: extra(Type.Array(EmailRecipient, { description: 'State of each recipient.' })),
  sentence: extra(Text('What happened to it; of several recipients, to how many what.')),
  explanations: extra(
    Type.Array(RecipientExplanation, { description: 'Why each recipient did not get it, or did, in the same order.' }),
  ),
  actions: extra(Type.Array(EmailAction, { description: 'What can be done now, by a key or role that may do it.' })),
  // Public clients of the interface read it here, or above.
  email: Type.Object(
    { ...EMAIL_FIELDS, ...BODY_FIELDS },
    { description: 'The same email, nested for clients that read it here.' },
  ),
  events: Type.Array(EmailEvent, { description: 'The events, in order.' }),
})
export type EmailDetail = Static<typeof EmailDetail>

/** What happened to an email, and to each of its recipients. */
export type Explanation = Pick<EmailDetail, 'sentence' | 'explanations'>
/** With what can be done about it. */
export type ActionableExplanation = Pick<EmailDetail, 'sentence' | 'explanations' | 'actions'>
