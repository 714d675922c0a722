/**
 * @module Accepts a submitted message: has it parsed in a Worker, translates it into a send request, and passes that to
 * the acceptance of the API. The reply is 250 only when the email is on disk.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import type { SubmittedMessage } from '#features/receiving/inbound/listener/protocol.ts'
import type { Parser } from '#features/receiving/inbound/process/parser.ts'
import { acceptTranslated } from '#features/sending/accept/accept.ts'
import { readIdempotency } from '#features/sending/accept/idempotency.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import type { Authenticator } from '#features/setup/api-keys/keys.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import { toStorageError } from '#platform/disk/storage-errors.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { serverBusy } from '#platform/http/body.ts'
import { summariseBody } from '#platform/http/body-summary.ts'
import type { ParsedMessage } from '#protocols/mime/parsed.ts'
import { findActor } from './logins.ts'
import { type EndedCommand, recordCommand } from './record.ts'
import { createAcceptedReply, createReply, INVALID_KEY, type SmtpReply, toReply } from './replies.ts'
import { translateMessage } from './translate.ts'

export interface SubmitOptions {
  readonly authenticator: Pick<Authenticator, 'authenticate' | 'findOwner'>
  readonly parser: Pick<Parser, 'parse'>
  readonly takeRate: TakeRate
}

/** Peak memory per octet of a message: its attachments decoded, in base64, and decoded again. */
const PEAK_FACTOR = 4

const BUSY = createReply(
  451,
  '4.3.2',
  'The service has too many large messages in progress; try again in a few seconds',
)

/** Creates the function that accepts messages. It never rejects. */
export function createSubmitter(
  app: App,
  { authenticator, parser, takeRate }: SubmitOptions,
): (message: SubmittedMessage) => Promise<SmtpReply> {
  const accept = async (actor: Actor, message: SubmittedMessage): Promise<Submitted> => {
    const parsed = await parse(parser, message)
    if (typeof parsed === 'string') return { reply: createReply(554, '5.6.0', parsed) }
    const { request, idempotencyKey, complete, dropped } = translateMessage(parsed, message)
    try {
      const idempotency = readIdempotency(request, idempotencyKey)
      const translated = { idempotency, translate: () => ({ ...request, headers: undefined }), complete }
      const { response } = await acceptTranslated(app, actor, translated, () => takeRate(actor))
      if (dropped.length > 0)
        app.log.info(
          { account: actor.accountUuid, email_id: response.id, dropped },
          'submitted message: fields left out',
        )
      return { reply: createAcceptedReply(response, dropped), emailId: response.id }
    } catch (error) {
      const known = toStorageError(error)
      if (known instanceof AppError)
        return { reply: toReply(known, request), errorCode: known.code, body: summariseBody(request) }
      throw error
    }
  }
  const submit = async (actor: Actor | AppError | undefined, message: SubmittedMessage): Promise<Submitted> => {
    if (actor instanceof AppError) return { reply: createReply(535, '5.7.8', actor.message), errorCode: actor.code }
    if (!actor || !hasScope(actor.scopes, 'emails:send')) return { reply: INVALID_KEY }
    const reservation = app.memory.reserve(message.sizeBytes * PEAK_FACTOR)
    if (!reservation) return { reply: BUSY }
    try {
      return await accept({ ...actor, ipAddress: message.sourceIp }, message)
    } catch (error) {
      const known = toStorageError(error)
      if (known instanceof AppError) return { reply: toReply(known), errorCode: known.code }
      app.log.error({ err: error, account: actor.accountUuid }, 'submitted message not accepted')
      return { reply: createReply(451, '4.3.0', 'Internal error; try again later') }
    } finally {
      reservation.release()
    }
  }
  return async (message) => {
    const { password, sourceIp, helo } = message
    const startedAtMs = app.clock.monotonicMs()
    // Again, because the key may have been deleted or restricted since the login.
    const found = findActor(authenticator, password, sourceIp)
    const submitted = await submit(found, message)
    const actor = found instanceof AppError ? undefined : found
    recordCommand(app, authenticator, { method: 'DATA', actor, password, sourceIp, helo, startedAtMs, ...submitted })
    return submitted.reply
  }
}

/** The reply to a message, with what the request log has of it. */
type Submitted = Pick<EndedCommand, 'reply' | 'errorCode' | 'emailId' | 'body'>

/**
 * Parses the whole message of a request; `use` runs while its memory is reserved.
 * @param field has the message, and is named by the 422 for one that cannot be parsed
 */
export async function withParsed<Result>(
  { memory }: App,
  parser: Pick<Parser, 'parse'>,
  field: string,
  bytes: Uint8Array,
  use: (message: ParsedMessage) => Promise<Result>,
): Promise<Result> {
  if (bytes.length === 0) throw invalid(field, `${field} must be a message with its header.`)
  // The body of the request has reserved the rest of the peak; otherwise a file of 24 MiB would never fit.
  const reservation = memory.reserve((bytes.length * PEAK_FACTOR) / 2)
  if (!reservation) throw serverBusy()
  try {
    const session = { mailFrom: '', sourceIp: '', helo: '', tls: null, sizeBytes: bytes.length }
    const parsed = await parse(parser, { ...session, content: { kind: 'bytes', bytes } })
    if (typeof parsed === 'string') throw invalid(field, `${field}: ${parsed}`)
    return await use(parsed)
  } finally {
    reservation.release()
  }
}

/** The parsed message, or why it cannot be parsed. */
async function parse(
  parser: Pick<Parser, 'parse'>,
  { content, sizeBytes, mailFrom, sourceIp, helo, tls }: Omit<SubmittedMessage, 'password' | 'recipients'>,
): Promise<ParsedMessage | string> {
  const { message, problem } = await parser.parse({
    submitted: content,
    rawRef: 0,
    sizeBytes,
    mailFrom,
    sourceIp,
    helo,
    tls,
    hostname: '',
    wantsReport: false,
  })
  return message ?? problem ?? 'The message cannot be parsed.'
}
