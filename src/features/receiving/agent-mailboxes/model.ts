/** @module The wire forms of agent mailboxes and their contents. */
import { type Static, Type } from '@sinclair/typebox'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { ContentState, createBodyReader, toContentState } from '#features/core/app/stored-content.ts'
import { MAX_LISTED_ATTACHMENTS, readTruncatedBodies, toAttachmentWire } from '#features/receiving/received/parts.ts'
import { SpamVerdictOrNull } from '#features/receiving/received/spam.ts'
import { isoTime, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { parseAutoResponder } from './auto-settings.ts'
import type { Contact } from './contacts.ts'
import type { Mailbox } from './mailboxes.ts'
import { type MailboxMessage, MESSAGE_STATUSES, type NewestMessage } from './messages.ts'
import { MAX_SEARCH_RESULTS } from './search.ts'
import type { Thread } from './threads.ts'

export const MailboxRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the mailbox.' }),
  account_id: S.Uuid({ description: 'Account of the mailbox.' }),
  local_part: S.Text('Part before the @, in lower case.'),
  domain: S.Text('Domain of its address, in A-labels.'),
  address: S.Text('local_part@domain. Mail to local_part+anything@domain is delivered here too.'),
  display_name: S.TextOrNull('Name in From of sent messages.'),
  created_at: S.Timestamp({ description: 'When it was created.' }),
  ...S.extraFields({
    message_count: S.Count('Received messages.'),
    unread_count: S.Count('Received messages that no consumer has acknowledged.'),
    unread_bytes: S.Count(
      'Size of these messages as received. A mailbox at its limit of unread mail rejects new messages temporarily.',
    ),
    thread_count: S.Count('Conversations.'),
    drafts: Type.Boolean({ description: 'Whether replies are drafts until a person releases them.' }),
    auto_responder: S.NullablePart('Automatic replies; null: never configured.', {
      enabled: Type.Boolean({ description: 'Whether automatic replies are sent.' }),
      rules: Type.Array(Type.Unknown(), { description: 'The rules, as configured.' }),
    }),
    auto_responder_enabled: Type.Boolean({ description: 'Whether automatic replies are sent.' }),
    auto_responder_rules: Type.Array(Type.Unknown(), { description: 'Their rules, as configured.' }),
    updated_at: S.Timestamp({ description: 'When it was last changed.' }),
  }),
})

export const NewMailbox = S.StrictObject(
  {
    display_name: S.OptionalNullable(Type.String(), {
      description: 'Name in From of sent messages, at most 200 characters.',
    }),
    local_part: S.OptionalNullable(Type.String(), {
      description:
        'Part before the @: 1 to 64 characters, stored in lower case. Default: a random one, such as calm-otter-0482.',
    }),
    domain_id: S.OptionalNullable(Type.String(), {
      description: 'Id of a verified domain with inbound_enabled. Default: the first one of the account.',
    }),
    drafts: Type.Optional(
      Type.Boolean({
        description:
          'Whether replies, automatic ones included, are drafts until a person releases them. Default: false.',
      }),
    ),
  },
  { examples: [{ local_part: 'helper', display_name: 'Helper of Example' }] },
)

export const MailboxPatch = S.StrictObject({ drafts: MailboxRecord.properties.drafts })

export const toMailboxWire = (mailbox: Mailbox) => {
  const { enabled, rules } = parseAutoResponder(mailbox.autoResponder)
  return toWire(MailboxRecord, mailbox, {
    account_id: formatUuid(mailbox.accountUuid),
    drafts: mailbox.drafts === 1,
    auto_responder: mailbox.autoResponder === null ? null : { enabled, rules },
    auto_responder_enabled: enabled,
    auto_responder_rules: rules,
  })
}

export const AttachmentRecord = Type.Object({
  filename: S.TextOrNull('Set by the sender; null: no name.'),
  content_type: S.Text('Set by the sender; not verified.'),
  size: S.Count('Decoded size in bytes.'),
  ...S.extraFields({
    content_id: S.TextOrNull('Target of `cid:` in the HTML, without angle brackets.'),
    disposition: S.StringEnum(['attachment', 'inline'], { description: '`inline`: shown within the HTML.' }),
  }),
})

export const LinkedAttachment = Type.Object({
  ...AttachmentRecord.properties,
  url: S.Text('Link to the content, as a download. It needs no key: whoever has it can read it.'),
  expires_in_seconds: S.Count('How long the link is valid: one to two hours.'),
})

const MESSAGE_FIELDS = {
  id: S.Uuid({ description: 'Id of the message.' }),
  mailbox_id: S.Uuid({ description: 'Mailbox it is in.' }),
  account_id: S.Uuid({ description: 'Account of the mailbox.' }),
  thread_id: S.Uuid({ description: 'Thread of the message.' }),
  message_id: S.TextOrNull('Message-ID header, with angle brackets; null: none.'),
  mail_from: S.Text('Envelope sender; empty: the null reverse-path.'),
  from_header: S.Text('From header.'),
  reply_to: S.TextOrNull('Reply-To header.'),
  subject: S.Text('Subject; empty if absent.'),
  size_bytes: S.Count('Size of the message as received; for a sent one, of its parts.'),
  labels: Type.Array(S.Text('A label.'), { description: 'Its labels.' }),
  read_at: S.TimeOrNull('When a consumer acknowledged it; null: unread.'),
  created_at: S.Timestamp({ description: 'When it was added to the mailbox.' }),
  ...S.extraFields({
    direction: S.StringEnum(['received', 'sent'], { description: '`sent`: a reply from this mailbox.' }),
    email_id: S.UuidOrNull('Id of the sent email, until it is deleted; null: received.'),
    in_reply_to: S.TextOrNull('Message-ID of the message that it answers.'),
    references: S.TextOrNull('Message-IDs of the conversation, separated by spaces.'),
    references_header: S.TextOrNull('Same as references.'),
    to_header: S.TextOrNull('To header.'),
    cc_header: S.TextOrNull('Cc header.'),
    attachments: Type.Array(AttachmentRecord, {
      description: `Attachments, numbered from 0 in this order. Lists and threads show the first ${MAX_LISTED_ATTACHMENTS} of very many.`,
    }),
    attachments_metadata: Type.Array(AttachmentRecord, { description: 'Same as attachments.' }),
    attachments_stored: Type.Boolean({
      description: 'Whether the content of its attachments is kept: whenever it has any.',
    }),
    classification: Type.Optional(
      S.Part('Only if the operator has enabled automatic classification.', {
        label: S.Text('Kind of message.'),
        confidence: Type.Number({ description: 'Confidence, from 0 to 1.' }),
      }),
    ),
    parse_error: Type.Optional(
      S.Text(
        'Why the message could not be parsed; absent otherwise. Such a message has header fields, but no bodies or attachments; its raw form is complete.',
      ),
    ),
    spam: SpamVerdictOrNull,
    source_ip: S.TextOrNull('IP address of the client.'),
    received_at: S.TimeOrNull('When it was received; null: it was sent.'),
  }),
}

const MessageFields = Type.Object(MESSAGE_FIELDS)

const BODY_FIELDS = {
  text_body: S.TextOrNull('Text of the message. Truncated after 2 MiB; the complete text is then an attachment.'),
  html_body: S.TextOrNull('HTML from an untrusted sender: sanitise it before you show it.'),
  ...S.extraFields({
    text_body_stripped: Type.Optional(S.Text('The text without quoted replies; absent when nothing was quoted.')),
    content: ContentState,
  }),
}

export const MessageRecord = Type.Object({
  ...MESSAGE_FIELDS,
  ...BODY_FIELDS,
  authentication: S.extra(
    S.Nullable(Type.Unknown(), {
      description: 'Results of SPF, DKIM, DMARC, ARC and reverse DNS, and `details`; null: it was sent.',
    }),
  ),
})
export type MessageRecord = Static<typeof MessageRecord>

export const toMessageFields = (message: MailboxMessage, mailbox: Mailbox) =>
  toWire(MessageFields, message, {
    mailbox_id: formatUuid(mailbox.uuid),
    account_id: formatUuid(mailbox.accountUuid),
    thread_id: formatUuid(message.threadUuid),
    direction: message.emailId === null ? 'received' : 'sent',
    email_id: message.emailUuid === null ? null : formatUuid(message.emailUuid),
    references_header: message.references,
    attachments: message.attachments.map(toAttachmentWire),
    attachments_metadata: message.attachments.map(toAttachmentWire),
    attachments_stored: message.attachments.length > 0,
  })

export function toMessageWire(app: Pick<App, 'content'>, message: MailboxMessage, mailbox: Mailbox): MessageRecord {
  const bodies = createBodyReader(app)
  const [stripped = null, text = null, html = null] = [message.strippedRef, message.textRef, message.htmlRef].map(
    bodies.read,
  )
  bodies.check(message.attachments.map(({ ref }) => ref))
  return {
    ...toMessageFields(message, mailbox),
    ...toContentState(bodies.isMissing),
    text_body: text,
    ...(stripped !== null && { text_body_stripped: stripped }),
    html_body: html,
    authentication: message.authentication,
  }
}

/** Limits of each body in a list and in a thread, which is read as a whole. A single message is returned with complete bodies. */
const MAX_BODY_BYTES_IN_LIST = 32 * KiB
export const MAX_BODY_BYTES_IN_THREAD = 64 * KiB

export const ListedMessage = Type.Object(
  {
    ...MESSAGE_FIELDS,
    ...BODY_FIELDS,
    truncated: S.extra(
      Type.Optional(
        Type.Boolean({
          description:
            'True if a body was truncated, after 32 KiB in a list or 64 KiB in a thread; the single message is complete.',
        }),
      ),
    ),
  },
  { title: 'MailboxMessageSummary' },
)
export type ListedMessage = Static<typeof ListedMessage>

/** Messages with truncated bodies. 100 long messages take 100 ms, so other work runs in between. */
export async function toListedMessagesWire(
  app: Pick<App, 'content' | 'db' | 'fairScheduler'>,
  messages: readonly MailboxMessage[],
  mailbox: Mailbox,
  maxBytes = MAX_BODY_BYTES_IN_LIST,
): Promise<ListedMessage[]> {
  const owner = getTenantId(app.db, mailbox.accountId)
  const wires: ListedMessage[] = []
  for (const [index, message] of messages.entries()) {
    if (index % MESSAGES_PER_BATCH === MESSAGES_PER_BATCH - 1)
      await app.fairScheduler.waitForTurn(owner, { isNew: false })
    wires.push({ ...toMessageFields(message, mailbox), ...readTruncatedBodies(app, message, maxBytes) })
  }
  return wires
}

const MESSAGES_PER_BATCH = 10

export const MessageQuery = Type.Object({
  ...S.ROW_RANGE_FIELDS,
  status: Type.Optional(
    S.StringEnum(MESSAGE_STATUSES, {
      description: '`unread`: not acknowledged by a consumer; `read`: acknowledged; `all` (default).',
    }),
  ),
})

export const SearchQuery = Type.Object({
  ...S.ROW_RANGE_FIELDS,
  q: Type.Optional(
    S.Text(
      `Words that subject, sender or text must all contain; at most 20 words in 200 characters. Ignores case and accents. Returns the newest ${MAX_SEARCH_RESULTS}.`,
    ),
  ),
})

export const DEFAULT_TIMEOUT_SECONDS = 30
export const MAX_TIMEOUT_SECONDS = 60

export const NextQuery = Type.Object({
  timeout: S.QueryInteger({
    minimum: 0,
    maximum: MAX_TIMEOUT_SECONDS,
    default: DEFAULT_TIMEOUT_SECONDS,
    description:
      'Client timeout in seconds. If no message comes, the response is sent 2 seconds before it (below 4 seconds: after half of it); 0 does not wait.',
  }),
})

export const NextMessage = Type.Object({
  data: MessageRecord,
  lease_token: S.Text('Token for ack and nack.'),
  lease_expires_at: S.Timestamp({ description: 'When the lease ends: after 5 minutes.' }),
})

export const LeaseEnd = S.StrictObject(
  { lease_token: Type.String({ maxLength: 200, description: 'The token from the response with the message.' }) },
  { examples: [{ lease_token: 'LEASE_TOKEN_EXAMPLE' }] },
)

export const LabelChange = S.StrictObject(
  {
    labels: Type.Array(S.Text('A label.'), {
      description: 'The complete list of labels: at most 50, each 1 to 64 of A to Z, a to z, 0 to 9, "_" and "-".',
    }),
  },
  { examples: [{ labels: ['invoice', 'answered'] }] },
)

/** A thread in a list: its newest message, and what is true of the whole thread. */
export const ListedThread = Type.Object({
  ...ListedMessage.properties,
  ...S.extraFields({
    message_count: S.Count('Received and sent messages of the thread.'),
    last_message_at: S.Timestamp({ description: 'When the newest one was received or sent.' }),
  }),
})
export type ListedThread = Static<typeof ListedThread>

export async function toListedThreadsWire(
  app: Pick<App, 'content' | 'db' | 'fairScheduler'>,
  threads: readonly NewestMessage[],
  mailbox: Mailbox,
): Promise<ListedThread[]> {
  const messages = await toListedMessagesWire(
    app,
    threads.map(({ newest }) => newest),
    mailbox,
  )
  return threads.map(({ thread }, index) => ({
    ...(messages[index] as ListedMessage),
    message_count: thread.messageCount,
    last_message_at: isoTime(thread.lastMessageAt),
  }))
}

export const ThreadRecord = Type.Object(
  {
    id: S.Uuid({ description: 'Id of the thread.' }),
    mailbox_id: S.Uuid({ description: 'Mailbox it is in.' }),
    account_id: S.Uuid({ description: 'Account of the mailbox.' }),
    subject: S.Text('Subject of its first message.'),
    message_count: S.Count('Received and sent messages.'),
    last_message_at: S.Timestamp({ description: 'When the newest one was received or sent.' }),
    created_at: S.Timestamp({ description: 'When it began.' }),
  },
  { title: 'MailboxThread' },
)

export const toThreadWire = (thread: Thread, mailbox: Mailbox) =>
  toWire(ThreadRecord, thread, { mailbox_id: formatUuid(mailbox.uuid), account_id: formatUuid(mailbox.accountUuid) })

/** A page of the messages of a thread, oldest first, and the thread itself. */
export const ThreadPage = Type.Object({
  ...S.PageBody(ListedMessage).properties,
  thread: S.extra({ ...ThreadRecord, description: 'The thread itself.' }),
})

export const ContactRecord = Type.Object({
  email: S.Text('Address of the sender, in lower case.'),
  display_name: S.TextOrNull('Name in the newest From header that had one.'),
  message_count: S.Count('Messages from this address.'),
  last_seen: S.Timestamp({ description: 'When the newest one was received, even if deleted since.' }),
  ...S.extraFields({
    address: S.Text('The same as email.'),
    name: S.TextOrNull('The same as display_name.'),
    last_message_at: S.Timestamp({ description: 'The same as last_seen.' }),
  }),
})

export const toContactWire = (contact: Contact) =>
  toWire(ContactRecord, contact, {
    email: contact.address,
    display_name: contact.name,
    last_seen: isoTime(contact.lastMessageAt),
  })

export const AnalyticsRecord = Type.Object({
  total_messages: S.Count('Received messages.'),
  unread_messages: S.Count('Received messages that no consumer has acknowledged.'),
  total_threads: S.Count('Conversations.'),
  messages_today: S.Count('Received since midnight (UTC).'),
  messages_this_week: S.Count('Received in the last seven days (UTC), including today.'),
})
