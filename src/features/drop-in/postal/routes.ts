/**
 * @module Postal's interface, for programs whose API credential came along: `send/message` and `send/raw`. The key is in
 * `X-Server-API-Key`. An answer is a 200 with `status`, also for an error; only what a program should repeat has a
 * status of its own, which Postal's clients take as a failure.
 */
import { type Static, Type } from '@sinclair/typebox'
import type { App } from '#features/core/app/app.ts'
import type { Parser } from '#features/receiving/inbound/process/parser.ts'
import { acceptTranslated, type TranslatedRequest } from '#features/sending/accept/accept.ts'
import { requireSendRequest } from '#features/sending/accept/batch.ts'
import { type Draft, isReservedHeader, MAX_RECIPIENTS } from '#features/sending/accept/draft.ts'
import { readIdempotency } from '#features/sending/accept/idempotency.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import { invalid } from '#platform/errors.ts'
import { readApiKeyText } from '#platform/http/authenticate.ts'
import type { Dialect } from '#platform/http/dialect.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import { type Call, createRoutes, Fields, on, takes } from '../dialects/routes.ts'
import { withParsed } from '../submission/submit.ts'
import { translateMessage } from '../submission/translate.ts'

const PREFIX = '/api/v1'

/** By the code of our errors; the others keep theirs. */
const CODES: Readonly<Record<string, string>> = {
  invalid_api_key: 'InvalidServerAPIKey',
  domain_not_found: 'UnauthenticatedFromAddress',
  domain_not_verified: 'UnauthenticatedFromAddress',
  account_paused: 'ServerSuspended',
}
/** Our names of fields in a sentence, as this interface has them. */
const NAMES = { text_body: 'plain_body', filename: 'name', content: 'data', tags: 'tag' }

const ABSENT =
  "This part of Postal's interface is not part of this service; docs/from-postal.md names what is there in its place."

export const postalDialect: Dialect = {
  name: 'postal',
  speaks: (path) => path.startsWith(`${PREFIX}/`),
  readApiKey: (headers) => readApiKeyText(headers.get('x-server-api-key')?.trim()),
  toErrorResponse({ status, code, message, advice, headers }) {
    const isAbsent = code === 'route_not_found' || code === 'method_not_allowed'
    const sentence = message.replace(
      /\b(?:text_body|filename|content|tags)\b/g,
      (name) => NAMES[name as keyof typeof NAMES],
    )
    const data = {
      code: CODES[code] ?? code,
      message: isAbsent ? ABSENT : advice ? `${sentence}. ${advice}` : sentence,
    }
    return {
      headers,
      status: status === 429 || status >= 500 ? status : 200,
      body: { status: status === 422 && !(code in CODES) ? 'parameter-error' : 'error', time: 0, flags: {}, data },
    }
  },
}

/** A send request of a body in Postal's form; the fields without effect are added to those ignored. */
function translate(body: JsonObject, ignored: Set<string>) {
  const { to, cc, bcc, from, subject, reply_to, plain_body, html_body, tag, headers, attachments, ...others } = body
  const fields = isJsonObject(headers) ? Object.entries(headers) : []
  for (const [name] of fields) if (isReservedHeader(name)) ignored.add(`headers.${name}`)
  for (const name of Object.keys(others)) ignored.add(name)
  const files = Array.isArray(attachments) ? attachments.filter(isJsonObject) : []
  return requireSendRequest({
    ...{ from: from ?? '', to: to ?? [], cc: cc ?? [], bcc: bcc ?? [], subject, reply_to, html_body },
    ...{ text_body: plain_body, tags: tag ? [tag] : [] },
    headers: Object.fromEntries(fields.filter(([name]) => !isReservedHeader(name))),
    attachments: files.map(({ name, content_type, data }) => ({ filename: name, content: data, content_type })),
  })
}

const Raw = Fields({
  mail_from: Type.String({ minLength: 1 }),
  rcpt_to: Type.Array(Type.String({ minLength: 1 }), { minItems: 1, maxItems: MAX_RECIPIENTS }),
  data: Type.String({ minLength: 1 }),
})

interface PostalOptions {
  readonly takeRate: TakeRate
  readonly parser: Pick<Parser, 'parse'>
}

/**
 * Accepts one email to all recipients, which Postal counts as a message for each: all have its id.
 * @param addresses those of a repeated request
 */
async function accept(
  { app, actor, set }: Call,
  translated: Pick<TranslatedRequest, 'translate'> & Partial<TranslatedRequest>,
  takeRate: TakeRate,
  addresses: readonly string[] = [],
) {
  const startedAtMs = app.clock.monotonicMs()
  const complete = (draft: Draft): Draft => {
    addresses = draft.recipients.map(({ address }) => address)
    return translated.complete?.(draft) ?? draft
  }
  const admit = () => void Object.assign(set.headers, takeRate(actor))
  const request = { idempotency: undefined, ...translated, complete }
  const { response } = await acceptTranslated(app, actor, request, admit)
  const message = { id: response.id, token: response.id, ...(response.status === 'draft' && { status: 'draft' }) }
  const data = {
    message_id: response.message_id.slice(1, -1),
    messages: Object.fromEntries(addresses.map((address) => [address, message])),
  }
  return { status: 'success', time: (app.clock.monotonicMs() - startedAtMs) / 1000, flags: {}, data }
}

/** Accepts a whole message. It is not passed on but rebuilt, like one that is submitted by SMTP. */
const acceptRaw = (call: Call<Static<typeof Raw>>, { parser, takeRate }: PostalOptions) => {
  const { mail_from: mailFrom, rcpt_to: recipients, data } = call.body
  return withParsed(call.app, parser, 'data', Buffer.from(data, 'base64'), (parsed) => {
    const { request, idempotencyKey, complete, dropped } = translateMessage(parsed, { mailFrom, recipients })
    for (const name of dropped) call.ignored.add(name)
    const idempotency = readIdempotency(request, idempotencyKey)
    const translated = { idempotency, translate: () => ({ ...request, headers: undefined }), complete }
    return accept(call, translated, takeRate, recipients)
  })
}

/** @param options of `src/app`: the rate of sends, and the parser of submitted mail */
export const postalRoutes = (app: App, options: PostalOptions) =>
  createRoutes(
    app,
    [PREFIX],
    [
      on('POST /send/message', 'emails:send', (call) => {
        const { body, ignored } = call
        if (!isJsonObject(body)) throw invalid('body', 'The body must be a JSON object.')
        return accept(call, { translate: () => translate(body, ignored) }, options.takeRate)
      }),
      takes('POST /send/raw', 'emails:send', Raw, (call) => acceptRaw(call, options)),
    ],
    (call) => call,
  )
