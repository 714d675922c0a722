/**
 * @module Routes of POST /v1/emails/broadcast, and of /v1/operations to pause, resume and cancel: paths, schemas and
 * one call each.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { OperationRecord, toOperationWire } from '#features/core/operations/model.ts'
import type { TakeRate } from '#features/sending/accept/send-rate.ts'
import { IDEMPOTENCY_KEY_PARAMETER } from '#features/sending/emails/routes.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { withoutTimeLimit } from '#platform/http/request-context.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { type ControlVerb, controlBroadcast } from './control.ts'
import { BroadcastStarted, NewBroadcast, toBroadcastRequest } from './model.ts'
import { sendBroadcast } from './send.ts'
import type { OnTransition } from './states.ts'

export interface BroadcastRouteOptions {
  readonly takeRate: TakeRate
  /** Called at each transition of a broadcast, in its transaction, to update the newsletter. */
  readonly onTransition: OnTransition
}

const operationRoute = {
  params: Type.Object({ id: Type.String({ description: 'Id of the operation.' }) }),
  response: DataBody(OperationRecord),
}

/** The shared part of the three descriptions. */
const describeControl = () => ({
  tags: ['Operations'],
  ...errorResponses({ 409: ['broadcast_over', 'It is no broadcast, or is too far for that.'] }),
  ...requires('emails:send'),
})

export const broadcastRoutes = (app: App, { takeRate, onTransition }: BroadcastRouteOptions) => {
  const control = async (actor: Actor, id: string, verb: ControlVerb) =>
    dataBody(toOperationWire(await controlBroadcast(app, actor, id, verb, onTransition), actor.accountUuid))

  return new Elysia()
    .use(authenticated)
    .post(
      '/v1/emails/broadcast',
      ({ actor, body, headers, request, status }) =>
        withoutTimeLimit(request, async () =>
          status(
            202,
            dataBody(
              await sendBroadcast(app, actor, toBroadcastRequest(body), {
                idempotencyKey: headers['idempotency-key'],
                body,
                admit: () => takeRate(actor),
              }),
            ),
          ),
        ),
      {
        body: NewBroadcast,
        response: { 202: DataBody(BroadcastStarted) },
        detail: {
          summary: 'Send to all active contacts of a list',
          description:
            'Answers when the recipients are fixed on disk, with the data of each as it is then; that takes some seconds for a million. Subject and bodies are templates: `contact`, `list`, `unsubscribe_url` and template_data are their variables. Every email has one-click unsubscribe. Who unsubscribes or is suppressed before their turn is left out. The header Idempotency-Key gives the first answer again; with another body it is a 409.',
          tags: ['Emails'],
          ...IDEMPOTENCY_KEY_PARAMETER,
          ...errorResponses({
            404: ['contact_list_not_found', 'There is no contact list with this id.'],
            409: ['idempotency_conflict', 'The Idempotency-Key was used for another body.'],
            429: ['quota_exceeded', 'The list is larger than what is left of the quota, or requests come too fast.'],
          }),
          ...requires('emails:send', 'contacts:read'),
        },
      },
    )
    .post('/v1/operations/:id/pause', ({ actor, params }) => control(actor, params.id, 'pause'), {
      ...operationRoute,
      detail: {
        summary: 'Pause a broadcast',
        description: 'What was not tried before waits until it is resumed. What is being tried ends as it ends.',
        ...describeControl(),
      },
    })
    .post('/v1/operations/:id/resume', ({ actor, params }) => control(actor, params.id, 'resume'), {
      ...operationRoute,
      detail: {
        summary: 'Resume a broadcast that was paused',
        description: 'It goes on where it stopped; before its time it waits for that.',
        ...describeControl(),
      },
    })
    .post('/v1/operations/:id/cancel', ({ actor, params }) => control(actor, params.id, 'cancel'), {
      ...operationRoute,
      detail: {
        summary: 'Cancel a broadcast',
        description:
          'What was not tried before is not sent any more, and counts in no quota. Its operation ends as `failed` when all of that is taken back.',
        ...describeControl(),
      },
    })
}
