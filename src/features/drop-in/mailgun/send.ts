/**
 * @module Accepts messages in Mailgun's form. A batch is stored in one transaction: a request without a response has
 * stored all of it or nothing. With a key, a repeated one sends nothing again; Ghost's batches have one of their own.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import type { Parser } from '#features/receiving/inbound/process/parser.ts'
import { acceptTranslated } from '#features/sending/accept/accept.ts'
import { acceptBatch } from '#features/sending/accept/batch.ts'
import { createDraft, type Draft } from '#features/sending/accept/draft.ts'
import { readIdempotency } from '#features/sending/accept/idempotency.ts'
import type { SendRequest } from '#features/sending/accept/model.ts'
import { requireSendable } from '#features/sending/accept/sendable.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { serverBusy } from '#platform/http/body.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { MiB } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { translateMessage } from '../submission/translate.ts'
import { type BatchRecipient, fill, fillMessage, type Message, readMailboxes, readMessage } from './message.ts'

/** Of the contents of a batch, which are in memory until they are stored. */
const MAX_BATCH_BYTES = 128 * MiB
const MESSAGE_ID = /^<[!-;=?-~]{1,250}>$/

export interface SendContext {
  readonly app: App
  readonly actor: Actor
  /** Of the path. */
  readonly domain: string
  readonly form: FormData
  /** Value of the header `Idempotency-Key`. */
  readonly header: string | undefined
  readonly ignored: Set<string>
  /** Throws when the account sends too fast. */
  readonly admit: () => void
}

const toResult = (id: string, from: string, isCaptured = false) => ({
  id,
  message: `Queued. Thank you.${isCaptured ? ` Not sent: the domain ${domainOfMailbox(from)} is not verified, so it was only captured.` : ''}`,
})

const createMessageId = ({ request }: Message): string => `<${formatUuid(newUuid())}@${domainOfMailbox(request.from)}>`

export async function sendMessage({ app, actor, domain, form, header, ignored, admit }: SendContext) {
  const read = await readMessage(form, domain, app.clock.now(), ignored)
  const message = header === undefined ? read : { ...read, request: { ...read.request, idempotency_key: header } }
  const { request, batch, messageId } = message
  if (message.isTest) {
    // Checked, neither stored nor sent.
    const [first] = batch ?? []
    requireSendable(app, actor, createDraft(app, first ? fillMessage(message, first) : request))
    return toResult(createMessageId(message), request.from)
  }
  if (batch) return sendBatch(app, actor, message, batch, admit)
  const idempotency = readIdempotency(request, undefined)
  const complete = (draft: Draft): Draft => withMessageId(draft, messageId)
  const { response } = await acceptTranslated(app, actor, { idempotency, translate: () => request, complete }, admit)
  return toResult(response.message_id, request.from, response.sandbox)
}

async function sendBatch(
  app: App,
  actor: Actor,
  message: Message,
  emails: readonly BatchRecipient[],
  admit: () => void,
) {
  const id = message.messageId ?? createMessageId(message)
  const held = app.memory.reserve(0)
  const translate = (recipient: unknown) => {
    const request = fillMessage(message, recipient as BatchRecipient)
    const bytes = (held?.bytes ?? 0) + measureContent(request)
    if (bytes > MAX_BATCH_BYTES)
      throw new AppError(
        413,
        'batch_too_large',
        `The emails of a batch have at most ${MAX_BATCH_BYTES} characters together; send fewer recipients at once.`,
      )
    if (!held?.resize(bytes)) throw serverBusy()
    return request
  }
  const complete = (draft: Draft, recipient: unknown): Draft =>
    withMessageId(draft, String(fill(id, recipient as BatchRecipient)))
  const input = { emails, idempotencyKey: undefined, translate, complete, isAllOrNone: true }
  const accepted = acceptBatch(app, actor, input, admit).finally(() => held?.release())
  const [first] = (await accepted).data
  // One Message-ID for all; of those that a client sets itself, its text with the variables, as in Mailgun.
  return toResult(message.messageId ?? first?.message_id ?? id, message.request.from, first?.sandbox)
}

function measureContent({ html_body, text_body, attachments, template_data }: SendRequest): number {
  const parts = [html_body, text_body, ...(attachments ?? []).map(({ content }) => content)]
  return parts.reduce((sum, part) => sum + (part?.length ?? 0), JSON.stringify(template_data ?? null).length)
}

function withMessageId(draft: Draft, messageId: string | undefined): Draft {
  if (messageId === undefined) return draft
  if (!MESSAGE_ID.test(messageId)) throw invalid('h:Message-Id', 'h:Message-Id must be like <order-42@example.com>.')
  return { ...draft, extra: { ...draft.extra, message_id: messageId } }
}

/** A whole message (`messages.mime`). Its recipients are those of the form. */
export async function sendMime(context: SendContext, parser: Pick<Parser, 'parse'>) {
  const { app, actor, form, header, ignored } = context
  const given = form.getAll('message').at(-1) as string | File | undefined
  if (given === undefined) throw invalid('message', 'Set "message" to the MIME message, as a file.')
  const bytes = typeof given === 'string' ? Buffer.from(given) : new Uint8Array(await given.arrayBuffer())
  const submitted = { kind: 'bytes', bytes } as const
  const session = { mailFrom: '', sourceIp: '', helo: '', tls: null, hostname: '', wantsReport: false }
  const { message, problem } = await parser.parse({ ...session, submitted, rawRef: 0, sizeBytes: bytes.length })
  if (!message) throw invalid('message', problem ?? 'The message cannot be parsed.')
  const recipients = readMailboxes(form, 'to').map(({ address }) => address)
  const { request: mime, dropped, complete, idempotencyKey } = translateMessage(message, { mailFrom: '', recipients })
  for (const name of dropped) ignored.add(name)
  form.set('from', mime.from)
  const { request: own, batch, isTest } = await readMessage(form, context.domain, app.clock.now(), ignored)
  if (batch || isTest) throw invalid('message', 'messages.mime takes neither recipient-variables nor o:testmode.')
  const { metadata, tracking = null, send_at = null } = own
  const request = { ...mime, metadata, tracking, send_at, tags: [...(mime.tags ?? []), ...(own.tags ?? [])] }
  const idempotency = readIdempotency(request, header ?? own.idempotency_key ?? idempotencyKey)
  const translated = { idempotency, translate: () => ({ ...request, headers: undefined }), complete }
  const { response } = await acceptTranslated(app, actor, translated, context.admit)
  return toResult(response.message_id, request.from, response.sandbox)
}
