/** @module /v1/operator/queue: what operators do with mail in the queue. Paths, schemas and one call each. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor } from '#features/core/app/app.ts'
import { authenticated } from '#features/core/app/http.ts'
import type { QueuePosition } from '#features/sending/queue/queue.ts'
import { formatCursor, parseCursor } from '#platform/http/cursor.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { invalidFields } from '#platform/http/validation.ts'
import { type OperatorContext, operatorRoute } from './context.ts'
import {
  QueueBounceRequest,
  QueueChange,
  QueueChangeRequest,
  QueueHoldRequest,
  QueueRedirectRequest,
  QueueReleaseRequest,
  QueueRuleRecord,
  QueueSelection,
  QueueSelector,
} from './model.ts'
import {
  changeMail,
  holdMail,
  parseReason,
  parseSelector,
  type QueueAction,
  readRules,
  readSelection,
  redirectMail,
  releaseMail,
} from './queue-control.ts'
import { toServiceActor } from './view-log.ts'

const NOT_FOUND = ['account_not_found', 'No account has this id; for an email, `email_not_found`.'] as const
const TOO_MANY = ['too_many_queue_rules', 'There are 1,000 holds and redirects.'] as const
const NOT_HELD = [TOO_MANY[0], `${TOO_MANY[1]} For an email that has ended, \`email_ended\`.`] as const

export const operatorQueueRoutes = ({ opened: { app }, recordView }: OperatorContext) => {
  const change = async (actor: Actor, action: QueueAction, body: Static<typeof QueueChangeRequest>, reason = '') => {
    const selector = parseSelector(app, body)
    const options = { reason, after: parsePlace(body.cursor) }
    const { changed, inDelivery, held, suspended, next } = await changeMail(
      app,
      toServiceActor(actor),
      action,
      selector,
      options,
    )
    return dataBody({
      changed,
      in_delivery: inDelivery,
      held,
      suspended: [...suspended],
      next_cursor: formatPlace(next),
    })
  }
  return new Elysia({ prefix: '/v1/operator/queue' })
    .use(authenticated)
    .get(
      '/rules',
      async ({ actor }) => {
        await recordView(actor, { name: 'queue' })
        return dataBody(readRules(app))
      },
      {
        response: DataBody(Type.Array(QueueRuleRecord)),
        detail: operatorRoute('List holds and redirects', 'Oldest first.'),
      },
    )
    .get(
      '/selection',
      async ({ actor, query }) => {
        await recordView(actor, { name: 'queue' })
        return dataBody(await readSelection(app, parseSelector(app, query)))
      },
      {
        query: QueueSelector,
        response: DataBody(QueueSelection),
        detail: operatorRoute('Count the mail that an action would change', undefined, { 404: NOT_FOUND }),
      },
    )
    .post(
      '/hold',
      async ({ actor, body }) => {
        const reason = parseReason(body.reason, false)
        return dataBody(await holdMail(app, toServiceActor(actor), parseSelector(app, body), reason))
      },
      {
        body: QueueHoldRequest,
        response: DataBody(QueueSelection),
        detail: operatorRoute(
          'Hold mail',
          'What matches waits until it is released, also what comes later; it does not expire. The response counts what matches now; mail in delivery is left alone.',
          { 404: NOT_FOUND, 409: NOT_HELD },
        ),
      },
    )
    .post(
      '/redirect',
      async ({ actor, body }) => {
        const reason = parseReason(body.reason, false)
        return dataBody(await redirectMail(app, toServiceActor(actor), parseSelector(app, body), body.to, reason))
      },
      {
        body: QueueRedirectRequest,
        response: DataBody(QueueSelection),
        detail: operatorRoute(
          'Redirect mail to another host',
          'What matches goes to this destination instead of its MX hosts, also what comes later, until it is released. Retry it if it waits for another attempt.',
          { 404: NOT_FOUND, 409: TOO_MANY },
        ),
      },
    )
    .post(
      '/release',
      async ({ actor, body }) =>
        dataBody(await releaseMail(app, toServiceActor(actor), parseSelector(app, body), body.kind)),
      {
        body: QueueReleaseRequest,
        response: DataBody(Type.Array(QueueRuleRecord)),
        detail: operatorRoute(
          'End holds and redirects',
          'Those that name at least what the request names; the response has them. Their mail is due again.',
          { 404: NOT_FOUND },
        ),
      },
    )
    .post('/retry', ({ actor, body }) => change(actor, 'retry', body), {
      body: QueueChangeRequest,
      response: DataBody(QueueChange),
      detail: operatorRoute(
        'Retry mail now',
        'Makes mail due that waits for another attempt, except held and scheduled mail, and ends the backoff of its mail hosts. A suspended provider stays suspended.',
        { 404: NOT_FOUND },
      ),
    })
    .post('/bounce', ({ actor, body }) => change(actor, 'bounce', body, parseReason(body.reason, true)), {
      body: QueueBounceRequest,
      response: DataBody(QueueChange),
      detail: operatorRoute(
        'Bounce mail',
        'Ends what waits as soft bounces of the category `expired`, with events and dead letters. Mail in delivery is left alone.',
        { 404: NOT_FOUND },
      ),
    })
    .post('/drop', ({ actor, body }) => change(actor, 'drop', body), {
      body: QueueChangeRequest,
      response: DataBody(QueueChange),
      detail: operatorRoute(
        'Drop mail',
        'Cancels what waits: no bounce and no dead letter, but an event with the reason `dropped_by_operator`; the quota is given back. A recipient of several, or of a broadcast, is rejected instead. Mail in delivery is left alone.',
        { 404: NOT_FOUND },
      ),
    })
}

const formatPlace = (place: QueuePosition | undefined): string | null =>
  place ? formatCursor(0, [place.lane, place.nextAt, place.id]) : null

function parsePlace(cursor: string | undefined): QueuePosition | undefined {
  if (cursor === undefined) return undefined
  const [lane, nextAt, id] = parseCursor(cursor).key ?? []
  if (typeof lane !== 'string' || typeof nextAt !== 'number' || typeof id !== 'number')
    throw invalidFields([{ field: 'cursor', message: 'must be the next_cursor of a response, unchanged' }])
  return { lane, nextAt, id }
}
