/** @module Sends: POST /emails and /emails/batch, below the prefix and at the root. */
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import { acceptTranslated } from '#features/sending/accept/accept.ts'
import { acceptBatch, requireSendRequest } from '#features/sending/accept/batch.ts'
import { createIdempotency, createIdempotencyConflict } from '#features/sending/accept/idempotency.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import { invalid } from '#platform/errors.ts'
import { isLargeBody } from '#platform/http/body.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { once } from '#platform/http/route-table.ts'
import type { JsonObject } from '#platform/json-object.ts'
import { type Call, on, type Route } from '../dialects/routes.ts'
import { toResendWords } from './dialect.ts'
import { type FetchedFiles, fetchRemoteFiles } from './remote-files.ts'
import { type TranslatedEmail, translateEmail } from './translate.ts'

export interface SendRouteOptions {
  readonly takeRate: TakeRate
}

const MAX_BATCH_SIZE = 100

/** Declares the header, so that a repeated request is answered even when the budget of work is used up. */
const IDEMPOTENT = { parameters: [{ name: 'Idempotency-Key', in: 'header' as const }] }

export const sendRoutes = ({ takeRate }: SendRouteOptions): Route[] => {
  const admitOnce = ({ actor, set }: Call) => once(() => Object.assign(set.headers, takeRate(actor)))
  const routes = [
    on('POST /emails/', 'emails:send', (call) => withoutTimeLimit(call.request, () => send(call, admitOnce(call)))),
    on('POST /emails/batch', 'emails:send', (call) => sendBatch(call, admitOnce(call))),
  ]
  return routes.map(({ detail, ...route }) => ({ ...route, detail: { ...detail, ...IDEMPOTENT } }))
}

export interface SentEmail {
  readonly id: string
}

export interface SentBatch {
  readonly data: SentEmail[]
  /** Only in permissive mode. */
  readonly errors?: { index: number; message: string }[]
}

/**
 * Accepts one email. A key that was used for another body is always a conflict here, whatever the setting for /v1 is.
 * @param admit throws when the account sends too fast
 */
async function send(call: Call, admit: () => void): Promise<SentEmail> {
  const { app, actor, body } = call
  const { headers } = call.request
  let files: FetchedFiles | undefined
  const check = () => {
    const translated = translateEmail(body, call)
    // Everything else is checked before a file is fetched.
    return { ...translated, checked: requireSendRequest(withContents(translated.request, NO_FILES)) }
  }
  const translate = async () => {
    // Translating and checking a large body takes milliseconds.
    const isLarge = isLargeBody(Number(headers.get('content-length') ?? Number.POSITIVE_INFINITY))
    const { request, remoteFiles, checked } = isLarge
      ? await app.fairScheduler.run(getTenantId(app.db, actor.accountId), check)
      : check()
    if (remoteFiles.length === 0) return checked
    admit()
    files = await fetchRemoteFiles(app, actor, remoteFiles)
    return requireSendRequest(withContents(request, files.contents))
  }
  try {
    const idempotency = createIdempotency('Idempotency-Key', headers.get('idempotency-key') ?? undefined, body)
    const { response } = await acceptTranslated(app, actor, { idempotency, translate }, admit)
    if (response.mismatch) throw createIdempotencyConflict()
    return { id: response.id }
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
function parseValidation(header: string | null): boolean {
  if (header === null || header === 'strict') return false
  if (header === 'permissive') return true
  throw invalid('x-batch-validation', 'x-batch-validation must be strict (all emails or none) or permissive.')
}

async function sendBatch(call: Call, admit: () => void): Promise<SentBatch> {
  const { app, actor, body } = call
  const { headers } = call.request
  const isPermissive = parseValidation(headers.get('x-batch-validation'))
  if (!Array.isArray(body) || body.length === 0 || body.length > MAX_BATCH_SIZE)
    throw invalid(
      'emails',
      `A batch must be an array of 1 to ${MAX_BATCH_SIZE} emails${Array.isArray(body) ? `; it has ${body.length}` : ''}.`,
    )
  const translate = (email: unknown) => {
    const translated = translateEmail(email, call)
    const [remote] = translated.remoteFiles
    if (remote)
      throw invalid(
        `attachments.${remote.index}.path`,
        `attachments.${remote.index}.path: files of a batch are not fetched; send content, or each email by itself.`,
      )
    return translated.request
  }
  const idempotencyKey = headers.get('idempotency-key') ?? undefined
  const input = { emails: body, idempotencyKey, translate, isAllOrNone: !isPermissive }
  const { data, errors } = await acceptBatch(app, actor, input, admit)
  return {
    data: data.map(({ id }) => ({ id })),
    ...(isPermissive && { errors: errors.map(({ index, error }) => ({ index, message: toResendWords(error) })) }),
  }
}
