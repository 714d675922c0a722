/** @module Sends: POST /email, /email/batch and those with templates, below the prefix and at the root. */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import { invalid } from '#platform/errors.ts'
import { setIgnored } from '#platform/http/ignored-fields.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { POSTMARK_PREFIX } from './dialect.ts'
import { createFieldReader } from './fields.ts'
import { IDEMPOTENCY_HEADER } from './message.ts'
import { type SendContext, sendBatch, sendMessage } from './send.ts'

export interface PostmarkSendOptions {
  readonly takeRate: TakeRate
  /** The domain of simulated mailboxes. */
  readonly simulatorDomain: string
}

const detail = requires('emails:send')
const readBatch = createFieldReader(['Messages'])

interface SendRequest {
  readonly actor: Actor
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly set: { headers: Record<string, string | number> }
}

export const postmarkSendRoutes = (app: App, options: PostmarkSendOptions) =>
  new Elysia({ name: 'postmark-sends' })
    .use(sendRoutes(app, options, ''))
    .use(sendRoutes(app, options, POSTMARK_PREFIX))

const sendRoutes = (app: App, { takeRate, simulatorDomain }: PostmarkSendOptions, prefix: string) => {
  const run = async <T>(
    { actor, headers, set }: SendRequest,
    isTemplated: boolean,
    send: (context: SendContext) => Promise<T>,
  ): Promise<T> => {
    const ignored = new Set<string>()
    const idempotencyKey = headers[IDEMPOTENCY_HEADER]
    const admit = () => Object.assign(set.headers, takeRate(actor))
    const result = await send({ app, actor, idempotencyKey, admit, isTemplated, ignored, simulatorDomain })
    setIgnored(set.headers, ignored)
    return result
  }
  return new Elysia({ prefix: `${prefix}/email` })
    .use(authenticated)
    .post('/', ({ body, ...request }) => run(request, false, (context) => sendMessage(context, body)), { detail })
    .post('/batch', ({ body, ...request }) => run(request, false, (context) => sendBatch(context, body)), { detail })
    .post('/withTemplate', ({ body, ...request }) => run(request, true, (context) => sendMessage(context, body)), {
      detail,
    })
    .post(
      '/batchWithTemplates',
      ({ body, ...request }) =>
        run(request, true, (context) => sendBatch(context, readMessages(body, context.ignored))),
      { detail },
    )
}

function readMessages(body: unknown, ignored: Set<string>): unknown {
  if (!isJsonObject(body)) throw invalid('body', 'The body must be {"Messages": […]}.', 'incompatible_json')
  return readBatch(body, ignored)['Messages']
}
