/** @module Routes /healthz and /readyz, for supervisors and load balancers. Public; they reveal nothing secret. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { AppError } from '#platform/errors.ts'
import { createReadiness } from './readiness.ts'

const RETRY_AFTER_SECONDS = 5

const tags = ['Health']
const Healthy = Type.Object({ status: Type.Literal('ok') })

/** @param isStopping whether the service was told to stop; a load balancer then sends requests elsewhere */
export const healthRoutes = (app: App, { isStopping }: { isStopping: () => boolean }) => {
  const readiness = createReadiness(app, isStopping)
  return new Elysia()
    .get('/healthz', () => ({ status: 'ok' as const }), {
      response: Healthy,
      detail: { summary: 'Whether the process runs', tags },
    })
    .get(
      '/readyz',
      async () => {
        const reasons = await readiness()
        if (reasons.length > 0)
          throw new AppError(
            503,
            'not_ready',
            `The service is not ready: ${reasons.map(({ field, message }) => `the ${field} ${message}`).join(', ')}.`,
            { details: reasons, retryAfterSeconds: RETRY_AFTER_SECONDS },
          )
        return { status: 'ok' as const }
      },
      {
        response: Healthy,
        detail: {
          summary: 'Whether the service can take work',
          description:
            '503 with the reasons in `details` when the database, the disk or the service itself is not ready.',
          tags,
        },
      },
    )
}
