/**
 * @module Sends replies from an agent mailbox: ordinary emails of the account (quota, rate, suppressions, pause) that
 * join the conversation by In-Reply-To and References (RFC 5322 §3.6.4), and are added to the thread in the same
 * transaction.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { type AcceptedEmail, acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft, type Draft } from '#features/sending/accept/draft.ts'
import { readIdempotency } from '#features/sending/accept/idempotency.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { notFoundById } from '#platform/http/schemas.ts'
import { parseUuid } from '#platform/ids.ts'
import {
  formatMailbox,
  type Mailbox as HeaderMailbox,
  listLocalPartKeys,
  parseMailboxList,
} from '#protocols/address/parse.ts'
import { findMailboxById, type Mailbox } from './mailboxes.ts'
import { getMailboxMessage, type MailboxMessage } from './messages.ts'
import { storeSentReply, type ThreadedMessage } from './threads.ts'

const sql = prepareStatements((db) => ({
  email: db.prepare<{ id: number; subject: string }, [Uint8Array]>('SELECT id, subject FROM emails WHERE uuid = ?'),
}))

/** The headers of the message that a reply answers. */
type ParentMessage = Pick<ThreadedMessage, 'messageId' | 'inReplyTo' | 'references'>

/** Message-IDs that a header can carry: `compose.ts` would encode longer ones. */
const MESSAGE_ID = /<[!-;=?-~]{1,500}>/g
/** Length of a line (RFC 5322 §2.1.1) without the field name. */
const MAX_REFERENCES_OCTETS = 998 - 'References: '.length
const MAX_SUBJECT_LENGTH = 900
/** Maximum recipients of a reply, because an untrusted Reply-To may name many. */
const MAX_RECIPIENTS = 10
// C0, DEL, C1 and the two Unicode line ends.
const CONTROLS = /[\0-\x1f\x7f-\x9f\u2028\u2029]+/g

/**
 * In-Reply-To and References of a reply (RFC 5322 §3.6.4); none without a Message-ID. When there are too many
 * references, it uses the first, which began the thread, and as many of the last as fit into a line.
 */
export function buildThreadHeaders({ messageId, inReplyTo, references }: ParentMessage): {
  readonly 'In-Reply-To'?: string
  readonly References?: string
} {
  const [parent] = findMessageIds(messageId ?? '')
  if (parent === undefined) return {}
  const ancestors = findMessageIds(references.join(' '))
  const single = findMessageIds(inReplyTo ?? '')
  const all = [...(ancestors.length > 0 ? ancestors : single.length === 1 ? single : []), parent]
  const unique = all.filter((id, index) => all.lastIndexOf(id) === index)
  return { 'In-Reply-To': parent, References: truncateReferences(unique).join(' ') }
}

const findMessageIds = (text: string): readonly string[] => text.match(MESSAGE_ID) ?? []

function truncateReferences([first, ...rest]: readonly string[]): readonly string[] {
  if (first === undefined) return []
  const last: string[] = []
  let octets = first.length
  for (const id of rest.toReversed()) {
    octets += 1 + id.length
    if (octets > MAX_REFERENCES_OCTETS) break
    last.unshift(id)
  }
  return [first, ...last]
}

/** The subject of a reply, with a single "Re: " (RFC 5322 §3.6.5). */
export function formatReplySubject(subject: string): string {
  const bare = toHeaderText(subject).replace(/^(?:re\s*(?:\[\d{1,3}\]\s*)?:\s*)+/i, '')
  return `Re: ${bare === '' ? '(no subject)' : bare}`
}

/** Untrusted text for use in a header: one line, truncated. */
export const toHeaderText = (text: string): string =>
  text.toWellFormed().replace(CONTROLS, ' ').trim().slice(0, MAX_SUBJECT_LENGTH).toWellFormed()

/**
 * Replies to a received message, to the addresses of Reply-To, otherwise of From; resolves when the reply is on disk.
 * Throws as a send does, 404 for an unknown mailbox or message, 422 for a message that cannot be replied to.
 * @param idempotencyHeader value of the header `Idempotency-Key`
 * @param admit throws when the account exceeds its rate; called after the idempotency lookup
 */
export async function replyToMessage(
  app: App,
  actor: Actor,
  { mailboxId, messageId }: { readonly mailboxId: string; readonly messageId: string },
  input: Pick<SendRequest, 'text_body' | 'html_body'>,
  { idempotencyHeader, admit }: { readonly idempotencyHeader: string | undefined; readonly admit: () => void },
) {
  const { mailbox, message } = getMailboxMessage(app.db, actor.accountId, mailboxId, messageId)
  if (message.emailId !== null)
    throw invalid('message', 'The message was sent from the mailbox; reply to a received one.', 'message_was_sent')
  const draft = createReplyDraft(
    app,
    mailbox,
    {
      messageId: message.messageId,
      inReplyTo: message.inReplyTo,
      references: message.references === null ? [] : [message.references],
    },
    { to: findReplyRecipients(mailbox, message), subject: formatReplySubject(message.subject), ...input },
    { idempotencyHeader },
  )
  const accepted = await acceptReply(app, actor, { mailbox, draft, threadId: message.threadId }, { admit })
  if (!accepted) throw new Error('an unconditional reply was not accepted')
  const { id, status, message_id, to, replayed, mismatch } = accepted.response
  // For a repeated request this is the subject of the first email, which may differ.
  const subject = getSentEmail(app, id).subject
  return { id, status, message_id, to, subject, ...(replayed && { replayed }), ...(mismatch && { mismatch }) }
}

/** The addresses of Reply-To, otherwise of From, in header form; never the mailbox itself. */
function findReplyRecipients(
  mailbox: Mailbox,
  message: Pick<MailboxMessage, 'replyTo' | 'fromHeader' | 'fromAddress'>,
): string[] {
  for (const header of [message.replyTo, message.fromHeader, message.fromAddress]) {
    const parsed = parseMailboxList(header ?? '')
    if (parsed.kind === 'invalid') continue
    const others = parsed.mailboxes.filter((sender) => !isAddressOfMailbox(mailbox, sender))
    if (others.length > 0) return others.slice(0, MAX_RECIPIENTS).map(formatMailbox)
  }
  throw invalid(
    'message',
    'The message has no address to reply to in Reply-To or From; write to the sender with POST /v1/emails.',
    'no_reply_address',
  )
}

/** Whether mail to an address reaches the mailbox. */
export const isAddressOfMailbox = (
  mailbox: Pick<Mailbox, 'localPart' | 'domain'>,
  { localPart, domain }: Pick<HeaderMailbox, 'localPart' | 'domain'>,
): boolean => domain === mailbox.domain && listLocalPartKeys(localPart).includes(mailbox.localPart)

/** The draft of a reply. Its headers are ours, without the limits on those of callers, and part of the fingerprint. */
export function createReplyDraft(
  app: App,
  mailbox: Mailbox,
  parent: ParentMessage,
  request: Omit<SendRequest, 'from' | 'headers' | 'idempotency_key'>,
  {
    idempotencyHeader,
    headers: extraHeaders = {},
  }: { idempotencyHeader?: string | undefined; headers?: Record<string, string> } = {},
): Draft {
  const from = formatMailbox({ name: mailbox.displayName ?? undefined, address: mailbox.address })
  const full: SendRequest = { ...request, from }
  const headers = { ...buildThreadHeaders(parent), ...extraHeaders }
  const draft = createDraft(app, full, readIdempotency({ ...full, headers }, idempotencyHeader))
  return { ...draft, extra: { ...draft.extra, headers } }
}

/** Rolls back a reply that must not be sent. */
class NotClaimedError extends Error {}

/**
 * Accepts a reply from a mailbox and adds it to its thread in one transaction; resolves when it is on disk. Otherwise
 * like `acceptEmail`.
 * @param answer.threadId row id of the thread of the message that it answers
 * @param options.claim called in the transaction, with the mailbox as it is now and whether all recipients are
 * suppressed; false: nothing is sent, and the result is undefined
 */
export async function acceptReply(
  app: App,
  actor: Actor,
  {
    mailbox,
    draft,
    threadId,
  }: { readonly mailbox: Mailbox; readonly draft: Draft; readonly threadId?: number | undefined },
  {
    admit,
    claim = () => true,
  }: { readonly admit?: () => void; readonly claim?: (tx: Tx, current: Mailbox, isSuppressed: boolean) => boolean },
): Promise<AcceptedEmail | undefined> {
  try {
    // A person who replies in the dashboard has read the reply.
    const isDraft = mailbox.drafts === 1 && actor.type !== 'user'
    return await acceptEmail(app, actor, { ...draft, isDraft }, admit, (tx, response) => {
      const current = findMailboxById(tx.db, mailbox.id)
      if (!current) throw notFoundById('mailbox_not_found', 'mailbox')
      if (!claim(tx, current, response.status === 'rejected')) throw new NotClaimedError()
      const { 'In-Reply-To': inReplyTo, References: references } = draft.extra.headers ?? {}
      storeSentReply(app, tx, current, {
        emailId: getSentEmail({ db: tx.db }, response.id).id,
        messageId: response.message_id,
        inReplyTo: inReplyTo ?? null,
        references: findMessageIds(references ?? ''),
        to: draft.recipients.map(({ mailbox: header, address }) => header ?? address).join(', '),
        text: new TextDecoder().decode(draft.text ?? new Uint8Array()),
        threadId,
      })
    })
  } catch (error) {
    if (error instanceof NotClaimedError) return undefined
    throw error
  }
}

function getSentEmail({ db }: Pick<App, 'db'>, id: string): { readonly id: number; readonly subject: string } {
  const uuid = parseUuid(id)
  const email = uuid && sql(db).email.get(uuid)
  if (!email) throw new AppError(404, 'email_not_found', 'Email not found.')
  return email
}
