/**
 * @module Delivers a received message to a mailbox, in the transaction that processes it. Message content never makes
 * it throw.
 */
import type { App } from '#features/core/app/app.ts'
import { record } from '#features/core/events/record.ts'
import type { ReceivedMail, StoredMessage } from '#features/receiving/received/message.ts'
import { toAttachmentJson, truncateHeader, truncateOptionalHeader } from '#features/receiving/received/parts.ts'
import { insertSql, prepareStatements, setSql, type Tx } from '#platform/db/open.ts'
import { formatUuid, newUuid, type UuidBytes } from '#platform/ids.ts'
import { perOwner } from '#platform/per-owner.ts'
import { normaliseAddress, parseMailbox } from '#protocols/address/parse.ts'
import { htmlToText } from '#protocols/mime/html-text.ts'
import { countContact, uncountContact } from './contacts.ts'
import type { Mailbox } from './mailboxes.ts'
import type { MailboxMessage } from './messages.ts'
import { indexMessage, unindexMessage } from './search.ts'
import type { mailboxMessages } from './tables.ts'
import { addToThread } from './threads.ts'

/** What parsing finds. */
const PARSED =
  'messageId inReplyTo referencesHeader fromHeader fromAddress toHeader ccHeader replyTo subject textRef strippedRef htmlRef attachments authentication spam classification'
type ParsedColumns = Omit<ReturnType<typeof toParsedColumns>, 'references'>
type NewRow = ParsedColumns &
  Omit<
    typeof mailboxMessages.$inferSelect,
    'id' | 'emailId' | 'references' | 'readAt' | 'leaseToken' | 'leaseExpiresAt' | 'ackedAt'
  >

const sql = prepareStatements((db) => ({
  insert: db.prepare<{ id: number }, [NewRow]>(
    `${insertSql(
      'mailbox_messages',
      `${PARSED} uuid mailboxId threadId mailFrom rawRef sizeBytes sourceIp helo tls parseError labels receivedAt createdAt`,
    )} RETURNING id`,
  ),
  amend: db.prepare<unknown, [ParsedColumns & { readonly id: number }]>(
    `UPDATE mailbox_messages SET ${setSql(PARSED)}, parse_error = NULL WHERE id = $id AND parse_error IS NOT NULL`,
  ),
  count: db.prepare(
    'UPDATE agent_mailboxes SET message_count = message_count + 1, unread_count = unread_count + 1, unread_bytes = unread_bytes + ? WHERE id = ?',
  ),
}))

/** Facts about a message beyond its content. */
export interface DeliveryExtra {
  readonly classification?: { readonly label: string; readonly confidence: number } | undefined
}

/** Stores a message in a mailbox: row, thread, search index, counts and event. Then long polls are woken. */
export function deliverToMailbox(
  app: App,
  tx: Tx,
  mailbox: Mailbox,
  received: ReceivedMail,
  extra: DeliveryExtra = {},
): { readonly uuid: UuidBytes; readonly id: number; readonly threadId: number } {
  const { message, envelope, problem } = received
  const at = app.eventTime()
  const uuid = newUuid()
  const columns = toParsedColumns(received, extra)
  const { subject, fromHeader, fromAddress } = columns
  const threadId = addToThread(tx, mailbox, { ...columns, at })
  const inserted = sql(tx.db).insert.get({
    ...envelope,
    ...columns,
    uuid,
    mailboxId: mailbox.id,
    threadId,
    mailFrom: truncateHeader(envelope.mailFrom),
    parseError: problem ?? null,
    labels: '[]',
    createdAt: at,
  })
  if (!inserted) throw new Error('the message was not stored')
  indexMessage(tx, inserted.id, {
    mailboxId: mailbox.id,
    subject,
    sender: `${fromHeader} ${fromAddress}`,
    body: toSearchText(message),
  })
  sql(tx.db).count.run(envelope.sizeBytes, mailbox.id)
  countContact(tx, mailbox.id, fromAddress, parseDisplayName(fromHeader), at)
  record(tx, {
    accountId: mailbox.accountId,
    type: 'mailbox.message.received',
    at,
    data: { mailbox_id: formatUuid(mailbox.uuid), mailbox_message_id: formatUuid(uuid) },
  })
  tx.afterCommit(() => app.mailboxChanged.emit({ mailboxId: mailbox.id }))
  return { uuid, id: inserted.id, threadId }
}

type AmendedMessage = Pick<MailboxMessage, 'id' | 'mailboxId' | 'fromAddress' | 'createdAt'>

/**
 * Amends a message that was stored with its header only. The message keeps its thread and read state, and no second
 * event is emitted. Returns false when it was deleted or amended in the meantime.
 */
export function amendMessage(tx: Tx, before: AmendedMessage, received: ReceivedMail, extra: DeliveryExtra): boolean {
  const columns = toParsedColumns(received, extra)
  const { subject, fromHeader, fromAddress } = columns
  const { changes } = sql(tx.db).amend.run({ ...columns, id: before.id })
  if (changes === 0) return false
  const { mailboxId } = before
  unindexMessage(tx, before.id)
  indexMessage(tx, before.id, {
    mailboxId,
    subject,
    sender: `${fromHeader} ${fromAddress}`,
    body: toSearchText(received.message),
  })
  if (fromAddress !== before.fromAddress) {
    uncountContact(tx, mailboxId, before.fromAddress)
    countContact(tx, mailboxId, fromAddress, parseDisplayName(fromHeader), before.createdAt)
  }
  return true
}

function toParsedColumns({ message, envelope, authentication, spam }: ReceivedMail, { classification }: DeliveryExtra) {
  const references = limitReferences(message.references)
  return {
    messageId: dropLongId(message.messageId),
    inReplyTo: dropLongId(message.inReplyTo),
    references,
    referencesHeader: references.length > 0 ? references.join(' ') : null,
    fromHeader: truncateHeader(message.from ?? message.fromAddresses[0] ?? envelope.mailFrom),
    // Without a usable From only the envelope identifies the sender.
    fromAddress: truncateHeader(normaliseAddress(message.fromAddresses[0] ?? envelope.mailFrom)),
    toHeader: truncateOptionalHeader(message.to),
    ccHeader: truncateOptionalHeader(message.cc),
    replyTo: truncateOptionalHeader(message.replyTo),
    subject: truncateHeader(message.subject),
    textRef: message.textRef,
    strippedRef: message.strippedRef,
    htmlRef: message.htmlRef,
    attachments: JSON.stringify(message.attachments.map(toAttachmentJson)),
    authentication: JSON.stringify(authentication),
    spam: spam ? JSON.stringify(spam) : null,
    classification: classification ? JSON.stringify(classification) : null,
  }
}

/** Of the HTML that is converted for the search: a newsletter fills the indexed text in about 10 ms. */
const MAX_HTML_LENGTH = 100_000
const convertHtmlToText = perOwner(({ html }: StoredMessage) => htmlToText((html ?? '').slice(0, MAX_HTML_LENGTH)))

/** The text to index. Without a text body, it is converted from the HTML, once for all mailboxes of a message. */
function toSearchText(message: StoredMessage): string {
  const { text, html } = message
  if (html === null || (text !== null && text.trim() !== '')) return text ?? ''
  return convertHtmlToText(message)
}

/** RFC 5322 §2.1.1: a line has at most 998 octets, so no mail program creates a longer id. */
const MAX_MESSAGE_ID_LENGTH = 998
const MAX_REFERENCES = 50

const dropLongId = (id: string | null): string | null => (id !== null && id.length <= MAX_MESSAGE_ID_LENGTH ? id : null)

/** Keeps the first reference, which names the message that began the conversation, and the last ones. */
function limitReferences(references: readonly string[]): string[] {
  const ids = references.filter((id) => id.length <= MAX_MESSAGE_ID_LENGTH)
  return ids.length <= MAX_REFERENCES ? ids : [...ids.slice(0, 1), ...ids.slice(1 - MAX_REFERENCES)]
}

/** The display name in a From header; null: none. */
function parseDisplayName(from: string): string | null {
  const parsed = parseMailbox(from)
  const name = parsed.kind === 'ok' ? parsed.name?.trim() : undefined
  return name === undefined || name === '' ? null : name
}
