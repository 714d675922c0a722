/** @module /v1/operator/fence: what waits since the data were restored. Paths, schemas and one call each. */
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView, toServiceActor } from '#features/core/audit-logs/audit.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody, Nullable } from '#platform/http/schemas.ts'
import { Fence, FenceDrop, FenceDropRequest, FenceRelease, FenceSelector } from './model.ts'
import { dropFence, readFenceView, releaseFence } from './release.ts'

const ERRORS = { 404: ['account_not_found', 'No account has this id.'] } as const

export const operatorFenceRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator/fence' })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'fence' })
        return dataBody((await readFenceView(app, query)) ?? null)
      },
      {
        query: FenceSelector,
        response: DataBody(Nullable(Fence)),
        detail: operatorRoute(
          'Get what waits since the data were restored',
          'From a backup or a copy, until it is released or dropped. Null: nothing waits.',
          ERRORS,
        ),
      },
    )
    .post('/release', async ({ actor, body }) => dataBody(await releaseFence(app, toServiceActor(actor), body)), {
      body: FenceSelector,
      response: DataBody(FenceRelease),
      detail: operatorRoute(
        'Release what waits since the data were restored',
        'It is sent, although some of it may have been sent before the restore.',
        ERRORS,
      ),
    })
    .post('/drop', async ({ actor, body }) => dataBody(await dropFence(app, toServiceActor(actor), body)), {
      body: FenceDropRequest,
      response: DataBody(FenceDrop),
      detail: operatorRoute(
        'Drop what waits since the data were restored',
        'Mail is cancelled with an event and its quota is given back; broadcasts are cancelled. Without a selection, mail to contacts and imports end, too.',
        ERRORS,
      ),
    })
