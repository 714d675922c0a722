/**
 * @module Accepts messages in Postmark's form, and builds their results. Acceptance is that of /v1: the same checks,
 * durability, idempotency and quota.
 */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { getOperation } from '#features/core/operations/operations.ts'
import { acceptRequest } from '#features/sending/accept/accept.ts'
import { acceptBatch } from '#features/sending/accept/batch.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { readIdempotency } from '#features/sending/accept/idempotency.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { serialiseData, startRenderSession } from '#features/setup/templates/render.ts'
import { findTemplateByNumber, validateBody } from '#features/setup/templates/templates.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { serverBusy } from '#platform/http/body.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, newUuid, parseUuid } from '#platform/ids.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import { mapConcurrently } from '#platform/queue/map-concurrently.ts'
import { MiB } from '#platform/units.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { INACTIVE_RECIPIENT, isTestActor, type PostmarkError, toErrorResult } from './dialect.ts'
import { IDEMPOTENCY_HEADER, Message, readShown, type TranslateOptions, translateMessage } from './message.ts'
import { convertMustachio } from './mustachio.ts'
import { type Call, createFieldReader, on } from './route.ts'

const MAX_BATCH = 500
const MAX_CONCURRENT_RENDERS = 4
/** Each message of a bulk send has attachments of its own in memory until they are stored. */
const MAX_BULK_BYTES = 128 * MiB
const MAX_NAMED = 100

const sql = prepareStatements((db) => ({
  suppressed: db.prepare<{ address: string }, [Uint8Array, number]>(
    `SELECT address FROM recipients WHERE email_id = (SELECT id FROM emails WHERE uuid = ?)
     AND status = ${statusCode('rejected')} ORDER BY id LIMIT ?`,
  ),
}))

export interface PostmarkSendOptions {
  readonly takeRate: TakeRate
  readonly simulatorDomain: string
}

interface SendCall extends Call, PostmarkSendOptions {
  readonly isTemplated: boolean
  /** Of the whole request. */
  readonly idempotencyKey: string | undefined
  /** Throws when the account sends too fast. */
  readonly admit: () => void
}

export function sendRoutes(options: PostmarkSendOptions) {
  const send = (path: string, isTemplated: boolean, answer: (call: SendCall) => unknown) =>
    on(`POST /email${path}`, 'emails:send', (call) =>
      answer({
        ...{ ...call, ...options, isTemplated },
        idempotencyKey: call.request.headers.get(IDEMPOTENCY_HEADER) ?? undefined,
        admit: () => Object.assign(call.set.headers, options.takeRate(call.actor)),
      }),
    )
  return [
    send('', false, sendMessage),
    send('/withTemplate', true, sendMessage),
    send('/batch', false, (call) => sendBatch(call, call.body)),
    send('/batchWithTemplates', true, (call) => sendBatch(call, readBatch(call.body, call.ignored)['Messages'])),
    send('/bulk', false, sendBulk),
    on('GET /email/bulk/:id', 'emails:read', readBulk),
  ]
}

/** Accepts one message; resolves when it is on disk. */
async function sendMessage(call: SendCall): Promise<SendResult> {
  const { app, actor, body, idempotencyKey, admit } = call
  if (isTestActor(actor)) return checkMessage(call, body, idempotencyKey)
  const request = translateMessage(body, translateOptionsOf(call))
  const { response } = await acceptRequest(app, actor, request, idempotencyKey, admit)
  const result = toResult(call, body, response)
  if ('MessageID' in result) return result
  throw new AppError(422, 'inactive_recipient', result.Message)
}

const readBatch = createFieldReader(['Messages'], 'The body must be {"Messages": […]}.')

/** Accepts a list of messages, each for itself; resolves when all are on disk. Returns a result for each. */
async function sendBatch(call: SendCall, messages: unknown): Promise<(SendResult | PostmarkError)[]> {
  const { app, actor, idempotencyKey, admit } = call
  if (!Array.isArray(messages))
    throw invalid(
      'body',
      'The body must be a JSON array of messages; with templates {"Messages": […]}.',
      'incompatible_json',
    )
  if (messages.length > MAX_BATCH)
    throw invalid(
      'body',
      `A batch has at most ${MAX_BATCH} messages; this one has ${messages.length}.`,
      'too_many_messages',
    )
  if (messages.length === 0) return []
  if (isTestActor(actor)) return checkBatch(call, messages)
  const options = translateOptionsOf(call)
  const translate = (message: unknown) => translateMessage(message, options)
  const { data, errors } = await acceptBatch(app, actor, { emails: messages, idempotencyKey, translate }, admit)
  const failed = new Map(errors.map((error) => [error.index, error]))
  const accepted = data.values()
  return messages.map((message, index) => {
    const error = failed.get(index)
    if (error) return toErrorResult(error.code, error.error)
    const response = accepted.next().value
    if (!response) throw new Error('a message of the batch has no result')
    return toResult(call, message, response)
  })
}

const readBulkFields = createFieldReader(
  [...Object.keys(Message.properties), 'Messages'],
  'The body must be {"From": …, "Messages": […]}.',
)

/**
 * Accepts one content for many recipients, all or none. Without a template the content is rendered for each of them, as
 * Mustachio's variables and sections that our templates have.
 */
export async function sendBulk(call: SendCall) {
  const { app, actor, accountId, body, idempotencyKey, admit, ignored } = call
  if (isTestActor(actor)) throw invalid('body', 'POSTMARK_API_TEST checks messages and batches, no bulk emails.')
  const { Messages: messages, Subject, HtmlBody, TextBody, ...shared } = readBulkFields(body, ignored)
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > MAX_BATCH || !messages.every(isJsonObject))
    throw invalid('Messages', `Messages must be an array of 1 to ${MAX_BATCH} objects.`, 'too_many_messages')
  const isTemplated = Boolean(shared['TemplateId'] ?? shared['TemplateAlias'])
  const bytes = JSON.stringify(shared).length * messages.length
  if (bytes > MAX_BULK_BYTES)
    throw new AppError(413, 'batch_too_large', `What all messages share has at most ${MAX_BULK_BYTES} bytes for all.`)
  const toSource = (field: string, text: unknown, isHtml = false) => {
    const valid = validateBody(field, typeof text === 'string' ? text : '') ?? ''
    const { source, problems } = convertMustachio(valid, isHtml)
    if (problems[0]) throw invalid('Messages', problems.join(' '), 'template_error')
    return source || undefined
  }
  const html = toSource('HtmlBody', HtmlBody, true)
  const source = { subject: toSource('Subject', Subject), html, text: toSource('TextBody', TextBody) }
  const memory = app.memory.reserve(bytes)
  if (!memory) throw serverBusy()
  using _ = { [Symbol.dispose]: () => memory.release() }
  using rendering = startRenderSession(app)
  const emails = await mapConcurrently(messages, MAX_CONCURRENT_RENDERS, async (message: JsonObject) => {
    const email: JsonObject = { MessageStream: 'broadcast', ...shared, ...message }
    if (isTemplated) return email
    const { TemplateModel, ...others } = email
    const dataJson = serialiseData(isJsonObject(TemplateModel) ? TemplateModel : {})
    const rendered = await rendering.render({ accountId, urgency: 'now', source, dataJson })
    return { ...others, Subject: rendered.subject, HtmlBody: rendered.html, TextBody: rendered.text }
  })
  const options = translateOptionsOf({ ...call, isTemplated })
  const translate = (email: unknown) => translateMessage(email, options)
  const input = { emails, idempotencyKey, translate, isAllOrNone: true }
  const { operation_id } = await acceptBatch(app, actor, input, admit)
  return { Id: operation_id, Status: 'Accepted' as const, SubmittedAt: isoTime(app.clock.now()) }
}

/** All emails are on disk as soon as the request has been answered. */
export function readBulk({ app, accountId, id }: Call) {
  const { uuid, createdAt, totalItems } = getOperation(app.db, accountId, id)
  const progress = { TotalMessages: totalItems, PercentageCompleted: 100, Subject: '' }
  return { Id: formatUuid(uuid), Status: 'Completed' as const, SubmittedAt: isoTime(createdAt), ...progress }
}

const translateOptionsOf = ({ app, accountId, isTemplated, ignored }: SendCall): TranslateOptions => ({
  isTemplated,
  ignored,
  // A number without a template is taken as an alias, so that the email of a repeated request is found although its
  // template has been deleted.
  findTemplate: (templateId) =>
    findTemplateByNumber(app.db, accountId, Number(templateId)) ?? { alias: String(templateId), locale: null },
})

/** Checks a message for the test token: what can be checked without an account. */
function checkMessage(call: SendCall, message: unknown, idempotencyKey?: string): SendResult {
  const request = translateMessage(message, translateOptionsOf(call))
  createDraft(call.app, request, readIdempotency(request, idempotencyKey))
  return toAccepted(message, isoTime(call.app.clock.now()), formatUuid(newUuid()), 'Test job accepted')
}

async function checkBatch(call: SendCall, messages: readonly unknown[]) {
  const { app, accountId } = call
  const results: (SendResult | PostmarkError)[] = []
  await app.fairScheduler.forEach(getTenantId(app.db, accountId), messages, (message) => {
    try {
      results.push(checkMessage(call, message))
    } catch (error) {
      if (!(error instanceof AppError && error.status === 422)) throw error
      results.push(toErrorResult(error.code, error.message))
    }
  })
  return results
}

export type SendResult = ReturnType<typeof toAccepted>

const toAccepted = (message: unknown, SubmittedAt: string, MessageID: string, Message: string) => ({
  ...readShown(message),
  ...{ SubmittedAt, MessageID, ErrorCode: 0 as const, Message },
})

const INACTIVE_END =
  'Inactive recipients are ones that have generated a hard bounce, a spam complaint, or a manual suppression.'

/**
 * The result of a stored email: an error if every recipient is suppressed, since such mail is not sent. Clients read the
 * suppressed addresses from these sentences.
 */
function toResult(
  { app, simulatorDomain }: SendCall,
  message: unknown,
  { id, message_id, status, sandbox, to, created_at }: SendResponse,
): SendResult | PostmarkError {
  const addresses = findSuppressed(app, id).join(', ')
  if (status === 'rejected')
    return {
      ErrorCode: INACTIVE_RECIPIENT,
      // The clients for JavaScript and Python read the sentence, that for Ruby a line of its own.
      Message: `You tried to send to recipient(s) that have been marked as inactive. Found inactive addresses: ${addresses}. ${INACTIVE_END}\nFound inactive addresses: ${addresses}.`,
    }
  // No client sets a Message-ID here, so it has the domain of From.
  const domain = domainOfMailbox(message_id)
  const isCaptured = sandbox && !to.endsWith(`@${simulatorDomain}`)
  const captured = `OK, but not sent: the domain ${domain} is not verified, so the message was only captured. \`tassis domains verify ${domain}\` shows what is missing.`
  const delivers = `Message OK, but will not deliver to these inactive addresses: ${addresses}. ${INACTIVE_END}`
  return toAccepted(message, created_at, id, addresses === '' ? (isCaptured ? captured : 'OK') : delivers)
}

function findSuppressed({ db }: App, id: string): string[] {
  const uuid = parseUuid(id)
  return (uuid ? sql(db).suppressed.all(uuid, MAX_NAMED) : []).map(({ address }) => address)
}
