/**
 * @module Accepts messages in Mailgun's form. A batch is stored in one transaction: a request without a response has
 * stored all of it or nothing. With a key, a repeated one sends nothing again; Ghost's batches have one of their own.
 */
import type { Parser } from '#features/receiving/inbound/process/parser.ts'
import { acceptTranslated } from '#features/sending/accept/accept.ts'
import { acceptBatch } from '#features/sending/accept/batch.ts'
import { createDraft, type Draft } from '#features/sending/accept/draft.ts'
import { readIdempotency } from '#features/sending/accept/idempotency.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
import { requireSendable } from '#features/sending/accept/sendable.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { serverBusy } from '#platform/http/body.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { MiB } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'
import { withParsed } from '../submission/submit.ts'
import { type BatchRecipient, createFill, fillMessage, type Message, readMessage } from './message.ts'
import type { Call } from './route.ts'

const MAX_BATCH_LENGTH = 128 * MiB
const MESSAGE_ID = /^<[!-;=?-~]{1,250}>$/

function toResult(id: string, from: string, { sandbox, status }: Partial<SendResponse> = {}) {
  const captured = `Not sent, only captured: the domain ${domainOfMailbox(from)} is not verified, or the recipient is simulated.`
  const more = sandbox ? ` ${captured}` : status === 'draft' ? ' Not sent yet: a person must release it.' : ''
  return { id, message: `Queued. Thank you.${more}` }
}

const createMessageId = ({ request }: Message): string => `<${formatUuid(newUuid())}@${domainOfMailbox(request.from)}>`

/**
 * @param admit throws when the account sends too fast
 * @param parsed the message, if it came as a whole
 */
export async function sendMessage(call: Call, admit: () => void, parsed?: ParsedMessage) {
  const { app, actor, body } = call
  const message = await readMessage(call, body instanceof FormData ? body : new FormData(), parsed)
  const { request, batch, messageId } = message
  const own = message.complete ? { ...request, headers: undefined } : request
  if (message.isTest) {
    // Checked, neither stored nor sent.
    const [first] = batch ?? []
    requireSendable(app, actor, createDraft(app, first ? fillMessage(message, first, () => undefined) : own))
    return toResult(createMessageId(message), request.from)
  }
  if (batch) return sendBatch(call, message, batch, admit)
  const idempotency = readIdempotency(request, undefined)
  const complete = message.complete ?? ((draft: Draft): Draft => withMessageId(draft, messageId))
  const { response } = await acceptTranslated(app, actor, { idempotency, translate: () => own, complete }, admit)
  return toResult(response.message_id, request.from, response)
}

/** Sends a whole message. It is not passed on but rebuilt, like one that is submitted by SMTP. */
export async function sendMime(call: Call, parser: Pick<Parser, 'parse'>, admit: () => void) {
  const { app, body } = call
  const given = (body instanceof FormData ? body.getAll('message') : []).at(-1) as string | File | undefined
  if (!given) throw invalid('message', 'Set "message" to the MIME message, as a file.')
  const bytes = new Uint8Array(await new Blob([given]).arrayBuffer())
  return await withParsed(app, parser, 'message', bytes, (parsed) => sendMessage(call, admit, parsed))
}

async function sendBatch({ app, actor }: Call, message: Message, emails: readonly BatchRecipient[], admit: () => void) {
  const id = message.messageId ?? createMessageId(message)
  const held = app.memory.reserve(0)
  let used = 0
  /** Counts characters that stay in memory until the batch is stored. */
  const take = (characters: number): void => {
    used += characters
    if (used > MAX_BATCH_LENGTH)
      throw new AppError(
        413,
        'batch_too_large',
        `The emails of a batch have at most ${MAX_BATCH_LENGTH} characters together; send fewer recipients at once.`,
      )
    if (!held?.resize(used)) throw serverBusy()
  }
  const translate = (recipient: unknown) => fillMessage(message, recipient as BatchRecipient, take)
  const complete = (draft: Draft, recipient: unknown): Draft =>
    withMessageId(draft, String(createFill(recipient as BatchRecipient, take)(id)))
  const input = { emails, idempotencyKey: undefined, translate, complete, isAllOrNone: true }
  const accepted = acceptBatch(app, actor, input, admit).finally(() => held?.release())
  const [first] = (await accepted).data
  // One Message-ID for all; of those that a client sets itself, its text with the variables, as in Mailgun.
  return toResult(message.messageId ?? first?.message_id ?? id, message.request.from, first)
}

function withMessageId(draft: Draft, messageId: string | undefined): Draft {
  if (messageId === undefined) return draft
  if (!MESSAGE_ID.test(messageId)) throw invalid('h:Message-Id', 'h:Message-Id must be like <order-42@example.com>.')
  return { ...draft, extra: { ...draft.extra, message_id: messageId } }
}
