/**
 * @module Parses messages again that were stored with their header only, at the operator's request, and amends the
 * stored rows. Never emits an event twice. If a message ends the process, nothing has changed.
 */
import { type Static, Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import { type AuditActor, auditChange, CLI_OPERATOR } from '#features/core/audit-logs/audit.ts'
import { dropContent } from '#features/core/content-gc/garbage.ts'
import { classifyMessage } from '#features/receiving/agent-mailboxes/classify.ts'
import { amendMessage } from '#features/receiving/agent-mailboxes/deliver.ts'
import { findMailboxById, type Mailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import {
  findUnparsedMessage,
  listUnparsedMessagesAfter,
  type MailboxMessage,
} from '#features/receiving/agent-mailboxes/messages.ts'
import { type OperatorMail, takeOperatorMail } from '#features/receiving/postmaster/store.ts'
import type { Envelope, ReceivedMail } from '#features/receiving/received/message.ts'
import { judgeReceived } from '#features/receiving/received/spam.ts'
import type { Tx } from '#platform/db/open.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { Text, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import { findUnparsedInbound, type InboundEmail, listUnparsedInboundAfter } from '../api/inbound-emails.ts'
import { createRecipientDecider } from './decide.ts'
import { applyReport } from './effects.ts'
import { type ParseResult, type Parser, RawUnreadableError, releaseAttachments } from './parser.ts'
import { enqueue, LAST_ATTEMPT_COUNT } from './queue.ts'
import { amendInbound, storeParts } from './store.ts'

export const UnparsedMessage = Type.Object({
  id: Uuid({ description: 'Id of the message.' }),
  kind: Text('`inbound` for a route or a domain; `mailbox` for an agent mailbox.'),
  to: Text('Recipients.'),
  from: Text('Sender.'),
  subject: Text('Subject.'),
  parse_error: Text('Why it could not be parsed.'),
  received_at: Timestamp({ description: 'When it arrived.' }),
})
type UnparsedView = Static<typeof UnparsedMessage>

/** Cursor of the list, in each of the two tables. */
export interface UnparsedCursor {
  readonly inbound: number
  readonly mailbox: number
}

export const START_POSITION: UnparsedCursor = { inbound: 0, mailbox: 0 }

/** Returns up to `limit` of each kind after a cursor, and the next cursor; undefined: no more. */
export function listUnparsed(
  app: Pick<App, 'db'>,
  after: UnparsedCursor,
  limit: number,
): { readonly unparsed: UnparsedView[]; readonly cursor: UnparsedCursor | undefined } {
  const inbound = listUnparsedInboundAfter(app.db, after.inbound, limit)
  const messages = listUnparsedMessagesAfter(app.db, after.mailbox, limit)
  const isLast = inbound.length < limit && messages.length < limit
  return {
    unparsed: [
      ...inbound.map(toUnparsedInbound),
      ...messages.map((message) => toUnparsedMessage(message, findMailboxById(app.db, message.mailboxId))),
    ],
    cursor: isLast
      ? undefined
      : { inbound: inbound.at(-1)?.id ?? after.inbound, mailbox: messages.at(-1)?.id ?? after.mailbox },
  }
}

const toUnparsedInbound = (email: InboundEmail): UnparsedView => ({
  id: formatUuid(email.uuid),
  kind: 'inbound',
  to: email.rcptTo.join(', '),
  from: email.fromHeader ?? email.mailFrom,
  subject: email.subject,
  parse_error: email.errorMessage ?? '',
  received_at: isoTime(email.receivedAt),
})

const toUnparsedMessage = (message: MailboxMessage, mailbox: Mailbox | undefined): UnparsedView => ({
  id: formatUuid(message.uuid),
  kind: 'mailbox',
  to: mailbox?.address ?? '',
  from: message.fromHeader,
  subject: message.subject,
  parse_error: message.parseError ?? '',
  received_at: isoTime(message.receivedAt ?? message.createdAt),
})

/** The stored facts that parsing needs, and the function that amends the rows. */
interface RetryTarget {
  readonly accountId: number
  readonly envelope: Envelope
  readonly rcptTo: readonly string[]
  readonly wantsClassification: boolean
  amend(tx: Tx, received: ReceivedMail, classification: Awaited<ReturnType<typeof classifyMessage>>): boolean
}

/**
 * Parses a message again and amends its rows. Returns the reason, a sentence, when it still cannot be parsed; then
 * only the audit log has changed. Throws 404 when no unparsed message has this public id.
 */
export async function retryUnparsed(
  app: App,
  parser: Parser,
  id: string,
  actor: AuditActor = CLI_OPERATOR,
): Promise<string | undefined> {
  const uuid = parseUuid(id)
  const target = uuid && findTarget(app, uuid)
  if (!target) throw notFound('message_not_found', 'No unparsed message has this id.')
  const recordRetry = (tx: Tx) => auditChange(app, tx, actor, 'operator.message_retried', uuid, undefined, 'message')
  const problem = await parseAndAmend(app, parser, target, recordRetry)
  if (problem === undefined) app.log.info({ message: formatUuid(uuid) }, 'received message parsed on retry')
  else await app.commit.writeFromReserve(recordRetry)
  return problem
}

/** Amends the rows; returns the reason, a sentence, when the message cannot be parsed and nothing has changed. */
async function parseAndAmend(
  app: App,
  parser: Parser,
  target: RetryTarget,
  alsoWrite: (tx: Tx) => void,
): Promise<string | undefined> {
  const { envelope } = target
  let result: ParseResult
  try {
    const { hostname } = app.config
    result = await parser.parse({ ...envelope, hostname, wantsReport: true })
  } catch (error) {
    if (error instanceof RawUnreadableError) return 'The raw message cannot be read.'
    throw error
  }
  try {
    if (!result.message) return result.problem ?? 'It cannot be parsed.'
    const message = await storeParts(app, result.message, result.strippedText, true)
    const { authentication, report } = result
    const spam = await judgeReceived(app, envelope, target.rcptTo)
    const received: ReceivedMail = { envelope, message, problem: undefined, authentication, report, spam }
    const classification = target.wantsClassification ? await classifyMessage(app, message) : undefined
    const isAmended = await app.commit.writeFromReserve((tx) => {
      if (!target.amend(tx, received, classification)) return false
      applyReport(app, tx, received, { accountId: target.accountId, now: app.eventTime() })
      alsoWrite(tx)
      return true
    })
    if (!isAmended) throw notFound('message_not_found', 'The message was deleted or amended in the meantime.')
    return undefined
  } finally {
    await releaseAttachments(result)
  }
}

/**
 * Processes operator mail again as if it had just arrived: a bounce, complaint or unsubscribe that was given up takes
 * effect, and other mail becomes operator mail again. Throws 404 for an unknown id. Throws 409 when none of its
 * addresses is ours any more, or when one of them cannot receive now: if only the others were processed, the copy for
 * that address would be lost.
 */
export async function retryOperatorMail(app: App, id: string, actor: AuditActor = CLI_OPERATOR): Promise<void> {
  const decide = createRecipientDecider(app)
  await app.commit.writeFromReserve((tx) => {
    const { uuid, rcptTo, createdAt: receivedAt, ...mail } = takeOperatorMail(tx, id)
    const decisions = rcptTo.map(decide)
    const refused = decisions.findIndex((decision) => 'code' in decision && decision.code < 500)
    if (refused >= 0)
      throw conflict('mailbox_full', `The mailbox ${rcptTo[refused]} is full. Retry after its owner has read messages.`)
    const destinations = decisions.filter((found) => 'kind' in found)
    if (destinations.length === 0)
      throw conflict('no_destination', 'None of the recipient addresses belongs to this host any more.')
    // The HELO name is not stored: authentication works without it.
    enqueue(app, tx, { ...mail, destinations, receivedAt, helo: '', tls: null }, LAST_ATTEMPT_COUNT)
    auditChange(app, tx, actor, 'operator_mail.retried', uuid)
  })
}

/** Returns a reader of the text of operator mail, parsed in a Worker; null: it has none or cannot be parsed. */
export const createMailTextReader =
  ({ config, log }: App, parser: Parser) =>
  async (mail: OperatorMail): Promise<string | null> => {
    const { mailFrom, sourceIp, rawRef, sizeBytes, createdAt: receivedAt } = mail
    try {
      const { hostname } = config
      const envelope = { mailFrom, sourceIp, rawRef, sizeBytes, receivedAt, helo: '', tls: null }
      const result = await parser.parse({ ...envelope, hostname, wantsReport: false })
      await releaseAttachments(result)
      return result.message?.text ?? null
    } catch (error) {
      if (!(error instanceof RawUnreadableError)) log.warn({ err: error }, 'operator mail not parsed')
      return null
    }
  }

function findTarget(app: App, uuid: UuidBytes): RetryTarget | undefined {
  const email = findUnparsedInbound(app.db, uuid)
  if (email)
    return {
      accountId: email.accountId,
      envelope: email,
      rcptTo: email.rcptTo,
      wantsClassification: false,
      amend(tx, received) {
        const isAmended = amendInbound(app, tx, email, received)
        dropContent(app, tx, { content: [received.message.strippedRef] })
        return isAmended
      },
    }
  const message = findUnparsedMessage(app.db, uuid)
  const mailbox = message && findMailboxById(app.db, message.mailboxId)
  if (!mailbox || message.rawRef === null) return undefined
  const { rawRef, sourceIp, helo, receivedAt, createdAt } = message
  return {
    accountId: mailbox.accountId,
    rcptTo: [mailbox.address],
    envelope: { ...message, rawRef, sourceIp: sourceIp ?? '', helo: helo ?? '', receivedAt: receivedAt ?? createdAt },
    wantsClassification: true,
    amend(tx, received, classification) {
      const isAmended = amendMessage(tx, message, received, { classification })
      dropContent(app, tx, { content: [received.message.headersRef] })
      return isAmended
    },
  }
}
