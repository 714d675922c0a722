/** @module Sends: POST /email, /email/batch and those with templates, below the prefix and at the root. */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import { invalid } from '#platform/errors.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { POSTMARK_PREFIX } from './dialect.ts'
import { createFieldReader, namesIgnored } from './fields.ts'
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
  readonly ignored: Set<string>
}

export const postmarkSendRoutes = (app: App, options: PostmarkSendOptions) =>
  new Elysia({ name: 'postmark-sends' })
    .use(sendRoutes(app, options, ''))
    .use(sendRoutes(app, options, POSTMARK_PREFIX))

const sendRoutes = (app: App, { takeRate, simulatorDomain }: PostmarkSendOptions, prefix: string) => {
  const contextOf = ({ actor, headers, set, ignored }: SendRequest, isTemplated: boolean): SendContext => ({
    ...{ app, actor, isTemplated, ignored, simulatorDomain },
    idempotencyKey: headers[IDEMPOTENCY_HEADER],
    admit: () => Object.assign(set.headers, takeRate(actor)),
  })
  return new Elysia({ prefix: `${prefix}/email` })
    .use(authenticated)
    .use(namesIgnored)
    .post('/', ({ body, ...request }) => sendMessage(contextOf(request, false), body), { detail })
    .post('/batch', ({ body, ...request }) => sendBatch(contextOf(request, false), body), { detail })
    .post('/withTemplate', ({ body, ...request }) => sendMessage(contextOf(request, true), body), { detail })
    .post(
      '/batchWithTemplates',
      ({ body, ...request }) => sendBatch(contextOf(request, true), readMessages(body, request.ignored)),
      { detail },
    )
}

function readMessages(body: unknown, ignored: Set<string>): unknown {
  if (!isJsonObject(body)) throw invalid('body', 'The body must be {"Messages": […]}.', 'incompatible_json')
  return readBatch(body, ignored)['Messages']
}
