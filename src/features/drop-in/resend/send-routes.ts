/** @module Sends: POST /emails and /emails/batch, below the prefix and at the root. */
import { Elysia } from 'elysia'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { acceptTranslated } from '#features/sending/accept/accept.ts'
import { acceptBatch, requireSendRequest } from '#features/sending/accept/batch.ts'
import { createIdempotency, createIdempotencyConflict } from '#features/sending/accept/idempotency.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import { findTemplateById } from '#features/setup/templates/templates.ts'
import { invalid } from '#platform/errors.ts'
import { isLargeBody } from '#platform/http/body.ts'
import { setIgnored } from '#platform/http/ignored-fields.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { once } from '#platform/http/route-table.ts'
import type { JsonObject } from '#platform/json-object.ts'
import { requireTopic } from './contact-routes.ts'
import { RESEND_PREFIX, toResendWords } from './dialect.ts'
import { type FetchedFiles, fetchRemoteFiles } from './remote-files.ts'
import { type TranslatedEmail, type TranslationContext, translateEmail } from './translate.ts'

export interface SendRouteOptions {
  readonly takeRate: TakeRate
}

const MAX_BATCH_SIZE = 100

/** Declares the header, so that a repeated request is answered even when the budget of work is used up. */
const IDEMPOTENT = { parameters: [{ name: 'Idempotency-Key', in: 'header' as const }] }

export const resendSendRoutes = (app: App, options: SendRouteOptions) =>
  new Elysia({ name: 'resend-sends' }).use(sendRoutes(app, options, '')).use(sendRoutes(app, options, RESEND_PREFIX))

const sendRoutes = (app: App, { takeRate }: SendRouteOptions, prefix: string) =>
  new Elysia({ prefix: `${prefix}/emails` })
    .use(authenticated)
    .post(
      '/',
      async ({ actor, body, headers, request, set }) => {
        const sent = await withoutTimeLimit(request, () =>
          send(app, actor, {
            body,
            isLarge: isLargeBody(Number(headers['content-length'] ?? Number.POSITIVE_INFINITY)),
            key: headers['idempotency-key'],
            admit: once(() => Object.assign(set.headers, takeRate(actor))),
          }),
        )
        setIgnored(set.headers, sent.ignored)
        return { id: sent.id } satisfies SentEmail
      },
      { detail: { ...IDEMPOTENT, ...requires('emails:send') } },
    )
    .post(
      '/batch',
      async ({ actor, body, headers, set }) => {
        const { ignored, ...sent } = await sendBatch(app, actor, {
          body,
          key: headers['idempotency-key'],
          isPermissive: parseValidation(headers['x-batch-validation']),
          admit: () => Object.assign(set.headers, takeRate(actor)),
        })
        setIgnored(set.headers, ignored)
        return sent
      },
      { detail: { ...IDEMPOTENT, ...requires('emails:send') } },
    )

export interface SentEmail {
  readonly id: string
}

export interface SentBatch {
  readonly data: SentEmail[]
  /** Only in permissive mode. */
  readonly errors?: { index: number; message: string }[]
}

const createContext = (app: App, actor: Actor): TranslationContext => ({
  now: app.clock.now(),
  findTemplate: (id) => findTemplateById(app.db, actor.accountId, id),
  getStreamSlug: (topicId) => requireTopic(app, actor.accountId, topicId).slug,
})

interface SingleSend {
  readonly body: unknown
  /** Whether translating and checking the body takes milliseconds. */
  readonly isLarge: boolean
  readonly key: string | undefined
  /** Throws when the account sends too fast; may be called twice. */
  readonly admit: () => void
}

/** Accepts one email. A key that was used for another body is always a conflict here, whatever the setting for /v1 is. */
async function send(
  app: App,
  actor: Actor,
  { body, isLarge, key, admit }: SingleSend,
): Promise<SentEmail & { readonly ignored: readonly string[] }> {
  let ignored: readonly string[] = []
  let files: FetchedFiles | undefined
  const check = () => {
    const { request, remoteFiles, ignored: unused } = translateEmail(body, createContext(app, actor))
    ignored = unused
    // Everything else is checked before a file is fetched.
    return { request, remoteFiles, checked: requireSendRequest(withContents(request, NO_FILES)) }
  }
  const translate = async () => {
    const { request, remoteFiles, checked } = isLarge
      ? await app.fairScheduler.run(getTenantId(app.db, actor.accountId), check)
      : check()
    if (remoteFiles.length === 0) return checked
    admit()
    files = await fetchRemoteFiles(app, actor, remoteFiles)
    return requireSendRequest(withContents(request, files.contents))
  }
  try {
    const idempotency = createIdempotency('Idempotency-Key', key, body)
    const { response } = await acceptTranslated(app, actor, { idempotency, translate }, admit)
    if (response.mismatch) throw createIdempotencyConflict()
    return { id: response.id, ignored }
  } finally {
    files?.[Symbol.dispose]()
  }
}

const NO_FILES: FetchedFiles['contents'] = new Map()

/** The request with the content of each file, which is empty for one that was not fetched. */
const withContents = (
  { attachments, ...request }: TranslatedEmail['request'],
  contents: FetchedFiles['contents'],
): JsonObject => ({
  ...request,
  ...(attachments && {
    attachments: attachments.map((file, index) => ({ content: contents.get(index) ?? '', ...file })),
  }),
})

/** Whether a batch may be accepted in part; default: all or none. */
function parseValidation(header: string | undefined): boolean {
  if (header === undefined || header === 'strict') return false
  if (header === 'permissive') return true
  throw invalid('x-batch-validation', 'x-batch-validation must be strict (all emails or none) or permissive.')
}

async function sendBatch(
  app: App,
  actor: Actor,
  request: {
    readonly body: unknown
    readonly key: string | undefined
    readonly isPermissive: boolean
    readonly admit: () => void
  },
): Promise<SentBatch & { readonly ignored: ReadonlySet<string> }> {
  const { body, key, isPermissive, admit } = request
  if (!Array.isArray(body) || body.length === 0 || body.length > MAX_BATCH_SIZE)
    throw invalid(
      'emails',
      `A batch must be an array of 1 to ${MAX_BATCH_SIZE} emails${Array.isArray(body) ? `; it has ${body.length}` : ''}.`,
    )
  const ignored = new Set<string>()
  const context = createContext(app, actor)
  const translate = (email: unknown) => {
    const translated = translateEmail(email, context)
    const [remote] = translated.remoteFiles
    if (remote)
      throw invalid(
        `attachments.${remote.index}.path`,
        `attachments.${remote.index}.path: files of a batch are not fetched; send content, or each email by itself.`,
      )
    for (const name of translated.ignored) ignored.add(name)
    return translated.request
  }
  const input = { emails: body, idempotencyKey: key, translate, isAllOrNone: !isPermissive }
  const { data, errors } = await acceptBatch(app, actor, input, admit)
  return {
    data: data.map(({ id }) => ({ id })),
    ...(isPermissive && { errors: errors.map(({ index, error }) => ({ index, message: toResendWords(error) })) }),
    ignored,
  }
}
