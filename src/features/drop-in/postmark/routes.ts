/**
 * @module All routes of Postmark's interface; here those of sends, /bounces, /deliverystats, suppressions of message
 * streams, /templates and /server.
 */

import { Elysia } from 'elysia'
import { removeSuppression } from '#features/audience/suppressions/suppressions.ts'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { streamJson } from '#platform/http/download.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { getBounce, listBounces, readDeliveryStats } from './bounces.ts'
import { POSTMARK_PREFIX } from './dialect.ts'
import { createFieldReader, namesIgnored } from './fields.ts'
import { postmarkInboundRoutes } from './inbound-routes.ts'
import { IDEMPOTENCY_HEADER } from './message.ts'
import { type PostmarkMessageOptions, postmarkMessageRoutes } from './message-routes.ts'
import { readBulk, type SendContext, sendBatch, sendBulk, sendMessage } from './send.ts'
import { createSuppressions, deleteSuppressions, dumpSuppressions, requireSlug } from './suppressions.ts'
import {
  changeFromView,
  createFromView,
  deleteByIdOrAlias,
  getByIdOrAlias,
  listTemplateViews,
  toTemplateView,
  validateTemplate,
} from './templates.ts'

const readsSuppressions = { detail: requires('suppressions:read') }
const writesSuppressions = { detail: requires('suppressions:write') }
const readsEmails = { detail: requires('emails:read') }
const readsTemplates = { detail: requires('templates:read') }
const writesTemplates = { detail: requires('templates:write') }

interface PostmarkSendOptions {
  readonly takeRate: TakeRate
  readonly simulatorDomain: string
}

const sendsEmails = { detail: requires('emails:send') }
const readBatch = createFieldReader(['Messages'])

interface SendRequest {
  readonly actor: Actor
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly set: { headers: Record<string, string | number> }
  readonly ignored: Set<string>
}

/** POST /email, /email/batch and those with templates; below the prefix, and at the root. */
const sendRoutes = (app: App, { takeRate, simulatorDomain }: PostmarkSendOptions, prefix: string) => {
  const contextOf = ({ actor, headers, set, ignored }: SendRequest, isTemplated: boolean): SendContext => ({
    ...{ app, actor, isTemplated, ignored, simulatorDomain },
    idempotencyKey: headers[IDEMPOTENCY_HEADER],
    admit: () => Object.assign(set.headers, takeRate(actor)),
  })
  return new Elysia({ prefix: `${prefix}/email` })
    .use(authenticated)
    .use(namesIgnored)
    .post('/', ({ body, ...request }) => sendMessage(contextOf(request, false), body), sendsEmails)
    .post('/batch', ({ body, ...request }) => sendBatch(contextOf(request, false), body), sendsEmails)
    .post('/withTemplate', ({ body, ...request }) => sendMessage(contextOf(request, true), body), sendsEmails)
    .post('/bulk', ({ body, ...request }) => sendBulk(contextOf(request, false), body), sendsEmails)
    .get('/bulk/:id', ({ actor, params }) => readBulk(app, actor, params.id), { detail: requires('emails:read') })
    .post(
      '/batchWithTemplates',
      ({ body, ...request }) => sendBatch(contextOf(request, true), readMessages(body, request.ignored)),
      sendsEmails,
    )
}

function readMessages(body: unknown, ignored: Set<string>): unknown {
  if (!isJsonObject(body)) throw invalid('body', 'The body must be {"Messages": […]}.', 'incompatible_json')
  return readBatch(body, ignored)['Messages']
}

const bounceRoutes = (app: App) => {
  const stats = ({ actor }: { readonly actor: Actor }) => readDeliveryStats(app, actor.accountId)
  return (
    new Elysia({ prefix: POSTMARK_PREFIX })
      .use(authenticated)
      // The client of npm writes the former, the documents of Postmark the latter.
      .get('/deliveryStats', stats, readsEmails)
      .get('/deliverystats', stats, readsEmails)
      .get(
        '/bounces',
        ({ actor, query, request }) => listBounces(app, actor.accountId, query, () => yieldFairly(request)),
        readsEmails,
      )
      .get('/bounces/:id', ({ actor, params }) => getBounce(app, actor.accountId, params.id), readsEmails)
      .get(
        '/bounces/:id/dump',
        ({ actor, params }) => {
          getBounce(app, actor.accountId, params.id)
          return { Body: '' }
        },
        readsEmails,
      )
      .put(
        '/bounces/:id/activate',
        async ({ actor, params }) => {
          const bounce = getBounce(app, actor.accountId, params.id)
          if (!bounce.CanActivate)
            throw conflict(
              'bounce_not_activated',
              bounce.Inactive
                ? 'Addresses that complained are not activated here; DELETE /v1/suppressions/{email} removes them.'
                : 'The address of this bounce is not suppressed.',
            )
          await removeSuppression(app, actor, bounce.Email)
          return { Message: 'OK', Bounce: getBounce(app, actor.accountId, params.id) }
        },
        writesSuppressions,
      )
  )
}

const suppressionRoutes = (app: App) =>
  new Elysia({ prefix: `${POSTMARK_PREFIX}/message-streams/:stream/suppressions` })
    .use(authenticated)
    .use(namesIgnored)
    .get(
      '/dump',
      ({ actor, params, query, request }) => {
        // Its errors come before the first piece is written.
        requireSlug(app, actor.accountId, params.stream)
        const pieces = dumpSuppressions(app, actor.accountId, params.stream, query)
        return streamJson(app, request, pieces, { filename: 'suppressions.json', onEnded: () => undefined })
      },
      readsSuppressions,
    )
    .post(
      '/',
      ({ actor, params, body, ignored }) => createSuppressions(app, actor, params.stream, body, ignored),
      writesSuppressions,
    )
    .post(
      '/delete',
      ({ actor, params, body, ignored }) => deleteSuppressions(app, actor, params.stream, body, ignored),
      writesSuppressions,
    )

const templateRoutes = (app: App) =>
  new Elysia({ prefix: `${POSTMARK_PREFIX}/templates` })
    .use(authenticated)
    .use(namesIgnored)
    .get('/', ({ actor, query }) => listTemplateViews(app, actor.accountId, query), readsTemplates)
    .post('/', ({ actor, body, ignored }) => createFromView(app, actor, body, ignored), writesTemplates)
    .post('/validate', ({ actor, body, ignored }) => validateTemplate(app, actor, body, ignored), readsTemplates)
    .get('/:id', ({ actor, params }) => toTemplateView(getByIdOrAlias(app, actor.accountId, params.id)), readsTemplates)
    .put(
      '/:id',
      ({ actor, params, body, ignored }) => changeFromView(app, actor, params.id, body, ignored),
      writesTemplates,
    )
    .delete('/:id', ({ actor, params }) => deleteByIdOrAlias(app, actor, params.id), writesTemplates)

const serverRoutes = (app: App) =>
  new Elysia({ prefix: `${POSTMARK_PREFIX}/server` })
    .use(authenticated)
    .get('/', ({ actor }) => readServer(app, actor), { detail: requires('account:read') })

export const postmarkRoutes = (app: App, options: PostmarkSendOptions & PostmarkMessageOptions) =>
  new Elysia({ name: 'postmark' })
    .use(sendRoutes(app, options, ''))
    .use(sendRoutes(app, options, POSTMARK_PREFIX))
    .use(postmarkMessageRoutes(app, options))
    .use(postmarkInboundRoutes(app))
    .use(bounceRoutes(app))
    .use(suppressionRoutes(app))
    .use(templateRoutes(app))
    .use(serverRoutes(app))

/** The account as a server of Postmark; settings that an account does not have are those of a new server. */
export function readServer(app: App, { accountId }: Actor) {
  const { name, trackingDefault } = getAccount(app.config, app.db, accountId)
  return {
    ID: accountId,
    Name: name,
    // Never shown after their creation.
    ApiTokens: [],
    ServerLink: app.config.publicUrl,
    Color: 'Grey',
    SmtpApiActivated: true,
    RawEmailEnabled: false,
    DeliveryType: app.config.delivery === 'capture' ? ('Sandbox' as const) : ('Live' as const),
    InboundAddress: '',
    InboundHookUrl: '',
    BounceHookUrl: '',
    OpenHookUrl: '',
    DeliveryHookUrl: '',
    ClickHookUrl: '',
    PostFirstOpenOnly: false,
    InboundDomain: '',
    InboundHash: '',
    InboundSpamThreshold: 0,
    TrackOpens: trackingDefault,
    TrackLinks: trackingDefault ? ('HtmlAndText' as const) : ('None' as const),
    IncludeBounceContentInHook: false,
    EnableSmtpApiErrorHooks: false,
  }
}
