/** @module The route of the link statistics of an email, and their JSON shape. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { getPlanTerms } from '#features/core/accounts/plans.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { getEmail } from '#features/sending/emails/read.ts'
import { AppError } from '#platform/errors.ts'
import { onePageBody, toWire } from '#platform/http/envelope.ts'
import { Count, extra, PageBody, Text, Timestamp } from '#platform/http/schemas.ts'
import { readLinkStatistics } from './engage.ts'

const LinkRecord = Type.Object({
  url: Text('Where the link leads, as the email has it.'),
  clicks: Count('Clicks by people, over all recipients.'),
  unique_clicks: Count('Distinct days (UTC) on which it was clicked.'),
  machine_clicks: extra(
    Count(
      'How often scanners and prefetchers followed it; counted nowhere else. Links that only they followed are omitted.',
    ),
  ),
  last_clicked_at: Timestamp({ description: 'The last of these clicks.' }),
})
export const trackingRoutes = (app: Pick<App, 'config' | 'db'>) =>
  new Elysia({ prefix: '/v1/emails', tags: ['Emails'] }).use(authenticated).get(
    '/:id/links',
    ({ actor, params }) => {
      const email = getEmail(app.db, actor.accountId, params.id)
      const { plan } = getAccount(app.config, app.db, actor.accountId)
      if (!getPlanTerms(app.config, plan).trackingEnabled) throw createNotInPlanError()
      return onePageBody(readLinkStatistics(app.db, email.id).map((link) => toWire(LinkRecord, link, {})))
    },
    {
      params: Type.Object({ id: Text('Id of the email.') }),
      response: PageBody(LinkRecord),
      detail: describeWith('emails:read')(
        'List the clicked links of an email',
        'One page with all tracked links that people have clicked, most clicked first. Every click counts, even if several share one `clicked` event; scanners and prefetchers do not count. On a plan without tracking the response is 403 `tracking_not_in_plan`.',
      ),
    },
  )

const createNotInPlanError = () =>
  new AppError(
    403,
    'tracking_not_in_plan',
    'The plan of this account has no open and click tracking; change to a plan that has it.',
  )
