/**
 * @module Accepts messages in Postmark's form, and builds their results. Acceptance is that of /v1: the same checks,
 * durability, idempotency and quota.
 */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { getOperation } from '#features/core/operations/operations.ts'
import { acceptRequest } from '#features/sending/accept/accept.ts'
import { acceptBatch } from '#features/sending/accept/batch.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { readIdempotency } from '#features/sending/accept/idempotency.ts'
import type { SendResponse } from '#features/sending/accept/model.ts'
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
import { createFieldReader } from './fields.ts'
import { Message, type ShownRecipients, type Translated, type TranslateOptions, translateMessage } from './message.ts'
import { convertMustachio } from './mustachio.ts'

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

export interface SendResult extends ShownRecipients {
  readonly SubmittedAt: string
  readonly MessageID: string
  readonly ErrorCode: 0
  readonly Message: string
}

export interface SendContext {
  readonly app: App
  readonly actor: Actor
  /** Value of the header `X-Tassis-Idempotency-Key` of the request. */
  readonly idempotencyKey: string | undefined
  /** Throws when the account sends too fast. */
  readonly admit: () => void
  readonly isTemplated: boolean
  readonly ignored: Set<string>
  readonly simulatorDomain: string
}

/** Accepts one message; resolves when it is on disk. */
export async function sendMessage(context: SendContext, body: unknown): Promise<SendResult> {
  const { app, actor, idempotencyKey, admit } = context
  const translated = translateMessage(body, translateOptionsOf(context))
  if (isTestActor(actor)) return checkMessage(app, translated, idempotencyKey)
  const { response } = await acceptRequest(app, actor, translated.request, idempotencyKey, admit)
  const result = toResult(context, translated, response)
  if ('MessageID' in result) return result
  throw new AppError(422, 'inactive_recipient', result.Message)
}

/** Accepts a list of messages, each for itself; resolves when all are on disk. Returns a result for each. */
export async function sendBatch(context: SendContext, body: unknown): Promise<(SendResult | PostmarkError)[]> {
  const { app, actor, idempotencyKey, admit } = context
  if (!Array.isArray(body))
    throw invalid(
      'body',
      'The body must be a JSON array of messages; with templates {"Messages": […]}.',
      'incompatible_json',
    )
  if (body.length > MAX_BATCH)
    throw invalid(
      'body',
      `A batch has at most ${MAX_BATCH} messages; this one has ${body.length}.`,
      'too_many_messages',
    )
  const results: (SendResult | PostmarkError | undefined)[] = []
  const messages: { readonly index: number; readonly translated: Translated }[] = []
  const options = translateOptionsOf(context)
  await app.fairScheduler.forEach(getTenantId(app.db, actor.accountId), body.entries(), ([index, value]) => {
    try {
      const translated = translateMessage(value, options)
      if (isTestActor(actor)) results[index] = checkMessage(app, translated, undefined)
      else messages.push({ index, translated })
    } catch (error) {
      if (!(error instanceof AppError && error.status === 422)) throw error
      results[index] = toErrorResult(error.code, error.message)
    }
  })
  if (messages.length > 0) {
    const emails = messages.map(({ translated }) => translated.request)
    const { data, errors } = await acceptBatch(app, actor, { emails, idempotencyKey }, admit)
    const failed = new Map(errors.map((error) => [error.index, error]))
    const accepted = data.values()
    for (const [position, { index, translated }] of messages.entries()) {
      const error = failed.get(position)
      const response = error ? undefined : accepted.next().value
      if (response) results[index] = toResult(context, translated, response)
      else if (error) results[index] = toErrorResult(error.code, error.error)
    }
  }
  return body.map((_, index) => results[index] ?? missingResult())
}

function missingResult(): never {
  throw new Error('a message of the batch has no result')
}

const readBulkFields = createFieldReader([...Object.keys(Message.properties), 'Messages'])

/**
 * Accepts one content for many recipients, all or none. Without a template the content is rendered for each of them, as
 * Mustachio's variables and sections that our templates have.
 */
export async function sendBulk(context: SendContext, body: unknown) {
  const { app, actor, idempotencyKey, admit, ignored } = context
  if (isTestActor(actor)) throw invalid('body', 'POSTMARK_API_TEST checks messages and batches, no bulk emails.')
  if (!isJsonObject(body)) throw invalid('body', 'The body must be {"From": …, "Messages": […]}.', 'incompatible_json')
  const { Messages: messages, Subject, HtmlBody, TextBody, ...shared } = readBulkFields(body, ignored)
  if (!Array.isArray(messages) || messages.length === 0 || messages.length > MAX_BATCH || !messages.every(isJsonObject))
    throw invalid('Messages', `Messages must be an array of 1 to ${MAX_BATCH} objects.`, 'too_many_messages')
  const isTemplated = Boolean(shared['TemplateId'] ?? shared['TemplateAlias'])
  const bytes = JSON.stringify(shared).length * messages.length
  if (bytes > MAX_BULK_BYTES)
    throw new AppError(413, 'batch_too_large', `What all messages share has at most ${MAX_BULK_BYTES} bytes for all.`)
  const source = (field: string, text: unknown, isHtml = false) => {
    const { source, problems } = convertMustachio(
      validateBody(field, typeof text === 'string' ? text : '') ?? '',
      isHtml,
    )
    if (problems[0]) throw invalid('Messages', problems.join(' '), 'template_error')
    return source || undefined
  }
  const html = source('HtmlBody', HtmlBody, true)
  const parts = { subject: source('Subject', Subject), html, text: source('TextBody', TextBody) }
  const memory = app.memory.reserve(bytes)
  if (!memory) throw serverBusy()
  using _ = { [Symbol.dispose]: () => memory.release() }
  using rendering = startRenderSession(app)
  const emails = await mapConcurrently(messages, MAX_CONCURRENT_RENDERS, async (message: JsonObject) => {
    const email = { MessageStream: 'broadcast', ...shared, ...message }
    if (isTemplated) return email
    const { TemplateModel = {}, ...others } = email as JsonObject
    const dataJson = serialiseData(isJsonObject(TemplateModel) ? TemplateModel : {})
    const { subject, html, text } = await rendering.render({
      accountId: actor.accountId,
      urgency: 'now',
      source: parts,
      dataJson,
    })
    return { ...others, Subject: subject, HtmlBody: html, TextBody: text }
  })
  const options = translateOptionsOf({ ...context, isTemplated })
  const translate = (email: unknown) => translateMessage(email, options).request
  const input = { emails, idempotencyKey, translate, isAllOrNone: true }
  const { operation_id } = await acceptBatch(app, actor, input, admit)
  return { Id: operation_id, Status: 'Accepted' as const, SubmittedAt: isoTime(app.clock.now()) }
}

/** All emails are on disk as soon as the request has been answered. */
export function readBulk(app: App, { accountId }: Actor, id: string) {
  const { uuid, createdAt, totalItems } = getOperation(app.db, accountId, id)
  const progress = { TotalMessages: totalItems, PercentageCompleted: 100, Subject: '' }
  return { Id: formatUuid(uuid), Status: 'Completed' as const, SubmittedAt: isoTime(createdAt), ...progress }
}

const translateOptionsOf = ({ app, actor, isTemplated, ignored }: SendContext): TranslateOptions => ({
  isTemplated,
  ignored,
  // A number without a template is taken as an alias, so that the email of a repeated request is found although its
  // template has been deleted.
  findTemplate: (templateId) =>
    findTemplateByNumber(app.db, actor.accountId, Number(templateId)) ?? { alias: String(templateId), locale: null },
})

/** Checks a message for the test token: what can be checked without an account. */
function checkMessage(app: App, { request, shown }: Translated, idempotencyKey: string | undefined): SendResult {
  createDraft(app, request, readIdempotency(request, idempotencyKey))
  return {
    ...shown,
    SubmittedAt: isoTime(app.clock.now()),
    MessageID: formatUuid(newUuid()),
    ErrorCode: 0,
    Message: 'Test job accepted',
  }
}

const INACTIVE_END =
  'Inactive recipients are ones that have generated a hard bounce, a spam complaint, or a manual suppression.'

/**
 * The result of a stored email: an error if every recipient is suppressed, since such mail is not sent. Clients read the
 * suppressed addresses from these sentences.
 */
function toResult(
  { app, simulatorDomain }: SendContext,
  { request, shown }: Translated,
  response: SendResponse,
): SendResult | PostmarkError {
  const addresses = findSuppressed(app, response.id).join(', ')
  if (response.status === 'rejected')
    return {
      ErrorCode: INACTIVE_RECIPIENT,
      // The clients for JavaScript and Python read the sentence, that for Ruby a line of its own.
      Message: `You tried to send to recipient(s) that have been marked as inactive. Found inactive addresses: ${addresses}. ${INACTIVE_END}\nFound inactive addresses: ${addresses}.`,
    }
  const domain = domainOfMailbox(request.from)
  const isCaptured = response.sandbox && !response.to.endsWith(`@${simulatorDomain}`)
  return {
    ...shown,
    SubmittedAt: response.created_at,
    MessageID: response.id,
    ErrorCode: 0,
    Message:
      addresses !== ''
        ? `Message OK, but will not deliver to these inactive addresses: ${addresses}. ${INACTIVE_END}`
        : isCaptured
          ? `OK, but not sent: the domain ${domain} is not verified, so the message was only captured. \`tassis domains verify ${domain}\` shows what is missing.`
          : 'OK',
  }
}

function findSuppressed({ db }: App, id: string): string[] {
  const uuid = parseUuid(id)
  return uuid
    ? sql(db)
        .suppressed.all(uuid, MAX_NAMED)
        .map(({ address }) => address)
    : []
}
