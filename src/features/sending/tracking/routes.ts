/** @module GET /v1/emails/:id/links: how often the links of an email were clicked. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { getPlanTerms } from '#features/core/accounts/plans.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { findEmail } from '#features/sending/emails/read.ts'
import { AppError } from '#platform/errors.ts'
import { pageBody } from '#platform/http/envelope.ts'
import { notFoundById, PageBody, parseUuidParam } from '#platform/http/schemas.ts'
import { readLinkStatistics } from './engage.ts'
import { LinkRecord, linkWire } from './model.ts'

export const trackingRoutes = (app: Pick<App, 'config' | 'db'>) =>
  new Elysia({ prefix: '/v1/emails' }).use(authenticated).get(
    '/:id/links',
    ({ actor, params }) => {
      const email = findEmail(app.db, actor.accountId, parseUuidParam(params.id, 'email_not_found', 'email'))
      if (!email) throw notFoundById('email_not_found', 'email')
      const { plan } = getAccount(app.config, app.db, actor.accountId)
      if (!getPlanTerms(app.config, plan).trackingEnabled) throw createNotInPlanError()
      const links = readLinkStatistics(app.db, email.id).map(linkWire)
      return pageBody(links, { page: 1, perPage: Math.max(links.length, 1), total: links.length })
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the email.' }) }),
      response: PageBody(LinkRecord),
      detail: {
        summary: 'List the clicked links of an email',
        description:
          'One page with all tracked links that people have clicked, most clicked first. Every click counts, even if several share one `clicked` event; scanners and prefetchers do not count. On a plan without tracking the response is 403 `tracking_not_in_plan`.',
        tags: ['Emails'],
        ...requires('emails:read'),
      },
    },
  )

const createNotInPlanError = () =>
  new AppError(
    403,
    'tracking_not_in_plan',
    'The plan of this account has no open and click tracking; change to a plan that has it.',
  )
