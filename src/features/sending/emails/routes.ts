/** @module The routes of /v1/emails: sending, batches, list and search, and what is done with one email. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, describeWith, requiresOrSupport } from '#features/core/app/http.ts'
import type { RecordedEvent } from '#features/core/events/model.ts'
import { acceptRequest } from '#features/sending/accept/accept.ts'
import { acceptBatch } from '#features/sending/accept/batch.ts'
import {
  BatchRequest,
  BatchResponse,
  SendRequest,
  SendResponse,
  takesIdempotencyKey,
} from '#features/sending/accept/model.ts'
import { RATE_HEADERS, type TakeRate } from '#features/sending/accept/sendable.ts'
import { ANY_TIME } from '#features/sending/queue/search.ts'
import type { RowWindow } from '#platform/db/open.ts'
import { invalid } from '#platform/errors.ts'
import { describeRoute, locatedAt, responseHeaders } from '#platform/http/access.ts'
import { parseDateRange } from '#platform/http/date-filter.ts'
import { dataBody, pageBody, timeKey } from '#platform/http/envelope.ts'
import { DataBody, PageBody, parsePage } from '#platform/http/schemas.ts'
import { parseUuid, type UuidBytes } from '#platform/ids.ts'
import * as model from './model.ts'
import { getEmail, listEmails, readEmailEvents, type StoredEmail } from './read.ts'
import { resendEmail } from './resend.ts'
import { cancelEmail, releaseEmail, rescheduleEmail } from './scheduled.ts'
import { parseSearch, type SearchResult, searchEmails } from './search-list.ts'
import * as wire from './wire.ts'

const sends = describeWith('emails:send')

/** Values from features that this one may not import; `src/app` passes them. */
export interface EmailRouteOptions {
  readonly maxAttempts: wire.MaxAttempts
  readonly takeRate: TakeRate
}

export const emailRoutes = (app: App, { maxAttempts, takeRate }: EmailRouteOptions) => {
  return new Elysia({ prefix: '/v1/emails', tags: ['Emails'] })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query }) => {
        const page = parsePage(query)
        const { emails, lastKey, ...counted } = await findEmails(app, actor.accountId, query, page)
        const rows = emails.map((email) => wire.hideContent(actor, wire.emailRowWire(email, maxAttempts)))
        // A search continues by the id. It may have stopped at an email of another account, whose time is not told.
        const end = counted.hasMore === undefined ? lastKey : lastKey && [0, ...lastKey.slice(1)]
        return pageBody(rows, { ...page, ...counted }, end)
      },
      {
        query: model.EmailQuery,
        response: PageBody(model.EmailRow),
        detail: describeRoute(
          'List emails',
          requiresOrSupport('emails:read'),
          'Newest first, without bodies; filters can be combined. With `q`, `to`, `from`, `subject`, `tag`, `stream`, `domain` or `message_id`, `pagination.total` counts to 10,000, and 10,001 means more; so it does with `engagement`. If a status, an operation or an engagement is added, the total is the number found so far, and a page may have fewer rows than `per_page`: continue while there is a `next_cursor`.',
        ),
      },
    )
    .post(
      '/',
      async ({ actor, body, headers, set, status }) => {
        const admit = () => void Object.assign(set.headers, takeRate(actor))
        const { response } = await acceptRequest(app, actor, body, headers['idempotency-key'], admit)
        if (response.mismatch) set.headers['idempotency-mismatch'] = 'true'
        return status(202, dataBody(response))
      },
      {
        body: SendRequest,
        response: { 202: DataBody(SendResponse) },
        detail: sends(
          'Send an email',
          'Responds when the email is on disk. The header Idempotency-Key is equivalent to idempotency_key. For tests, `sim.` and the host name of the service is a domain of simulated mailboxes: `deliver`, `bounce+5.1.1` with any code, `defer`, `greylist`, `slow`, `drop-after-dot`, `open`, `click`, `complain`. Such mail has all events and webhooks but is `sandbox` mail: it affects neither quota nor reputation nor suppressions.',
          { ...takesIdempotencyKey(), ...responseHeaders(...RATE_HEADERS, 'Idempotency-Mismatch') },
        ),
      },
    )
    .post(
      '/batch',
      async ({ actor, body, headers, set, status }) => {
        const input = { emails: body.emails, idempotencyKey: headers['idempotency-key'] }
        const admit = () => void Object.assign(set.headers, takeRate(actor))
        return status(202, await acceptBatch(app, actor, input, admit))
      },
      {
        body: BatchRequest,
        response: { 202: BatchResponse },
        detail: sends(
          'Send up to 500 emails',
          'Each email is checked separately; invalid ones are reported in `errors`, the others are sent.',
          { ...takesIdempotencyKey(), ...responseHeaders(...RATE_HEADERS) },
        ),
      },
    )
}

/** A page of the account's emails that match the query. */
export async function findEmails(
  app: App,
  accountId: number,
  query: Static<typeof model.EmailQuery>,
  page: RowWindow,
): Promise<Omit<SearchResult, 'hasMore'> & Partial<SearchResult>> {
  const { from = ANY_TIME.from, to = ANY_TIME.to } = parseDateRange(query)
  const operation = parseOperationFilter(query.operation_id)
  // Some clients say `delivered` for `sent`.
  const status = query.status === 'delivered' ? 'sent' : query.status
  const filter = { status, engagement: query.engagement, from, to, operation }
  const parsed = parseSearch(app.db, accountId, query)
  if (parsed) return searchEmails(app, accountId, { filter, search: parsed }, page)
  const { emails, total } = listEmails(app.db, accountId, filter, page)
  return { emails, total, lastKey: timeKey(emails, ({ createdAt }) => createdAt) }
}

function parseOperationFilter(id: string | undefined): UuidBytes | undefined {
  if (id === undefined) return undefined
  const uuid = parseUuid(id)
  if (!uuid) throw invalid('operation_id', 'operation_id must be a UUID, the id of an operation.')
  return uuid
}

/** Values that composition passes from later features. */
export interface OneEmailRouteOptions extends EmailRouteOptions {
  readonly renderedBodies: wire.RenderBodies
  readonly explain: (
    accountId: number,
    email: StoredEmail,
    events: readonly RecordedEvent[],
  ) => model.ActionableExplanation
  /** Composes the message of an email, by row id, again. */
  readonly readSource: (emailId: number, options: { readonly isContentHidden: boolean }) => Promise<model.EmailSource>
}

const params = Type.Object({ id: Type.String({ description: 'Id of the email.' }) })

async function readDetail(
  app: App,
  actor: Actor,
  email: StoredEmail,
  { maxAttempts, renderedBodies, explain }: OneEmailRouteOptions,
): Promise<model.EmailDetail> {
  const events = readEmailEvents(app, actor.accountId, email.id)
  return wire.emailDetailWire(email, {
    maxAttempts,
    ...(await wire.readBodiesAs(actor, app, email, renderedBodies)),
    events,
    explanation: explain(actor.accountId, email, events),
    keys: app.keys,
    actor,
  })
}

export const oneEmailRoutes = (app: App, options: OneEmailRouteOptions) =>
  new Elysia({ prefix: '/v1/emails', tags: ['Emails'] })
    .use(authenticated)
    .get(
      '/:id',
      async ({ actor, params }) =>
        dataBody(await readDetail(app, actor, getEmail(app.db, actor.accountId, params.id), options)),
      {
        params,
        response: DataBody(model.EmailDetail),
        detail: describeRoute('Get an email with its recipients and events', requiresOrSupport('emails:read')),
      },
    )
    .patch('/:id', async ({ actor, params, body }) => dataBody(await rescheduleEmail(app, actor, params.id, body)), {
      params,
      body: model.EmailChange,
      response: DataBody(SendResponse),
      detail: sends(
        'Reschedule an email',
        'Moves a scheduled email to another time, or sends it now. An email that is no longer scheduled is a 409 `email_not_scheduled`.',
      ),
    })
    .post(
      '/:id/resend',
      async ({ actor, params, body, headers, set, status }) => {
        const key = headers['idempotency-key']
        const admit = () => void Object.assign(set.headers, options.takeRate(actor))
        const { response, warnings } = await resendEmail(app, actor, params.id, body, key, admit)
        if (response.mismatch) set.headers['idempotency-mismatch'] = 'true'
        return status(202, dataBody({ ...response, ...(warnings.length > 0 && { warnings }) }))
      },
      {
        params,
        body: model.ResendRequest,
        response: { 202: DataBody(model.ResendResponse) },
        detail: sends(
          'Send an email again',
          'Accepts a new email with the same sender, recipients, subject, bodies, headers, attachments, tags and metadata, under the same checks as any other; its detail has `resend_of`. Recipients who got the first one get a second; `warnings` names them, those who may have got it, and suppressed ones, who get none. A 409: `email_open` while the first is still being sent, `content_removed` when its content is no longer stored, `email_of_broadcast`, `email_forwarded`, `system_mail`, `stream_deleted`, `recipients_erased`.',
          {
            ...takesIdempotencyKey({ id: 'Id of the email.' }),
            ...locatedAt('/v1/emails'),
            ...responseHeaders(...RATE_HEADERS, 'Idempotency-Mismatch'),
          },
        ),
      },
    )
    .get(
      '/:id/source',
      async ({ actor, params }) => {
        const email = getEmail(app.db, actor.accountId, params.id)
        return dataBody(await options.readSource(email.id, { isContentHidden: wire.isBodyHidden(actor, email) }))
      },
      {
        params,
        response: DataBody(model.EmailSource),
        detail: describeWith('emails:read')(
          'Get the source of an email',
          'The message composed again as it is sent, for its first recipient.',
        ),
      },
    )
    .post('/:id/release', async ({ actor, params }) => dataBody(await releaseEmail(app, actor, params.id)), {
      params,
      response: DataBody(SendResponse),
      detail: describeWith('drafts:release')(
        'Release a draft',
        'Sends an email that a key or mailbox with `drafts` left as a draft: at its `send_at`, or now. A 409 `email_not_draft` if it is none any more, so of several releases one sends.',
      ),
    })
    .post('/:id/cancel', async ({ actor, params }) => dataBody(await cancelEmail(app, actor, params.id)), {
      params,
      response: DataBody(SendResponse),
      detail: sends('Cancel a scheduled email, or discard a draft'),
    })
