/** @module /v1/account/reputation: the rates by which the account is monitored, beside their limits. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { getAccount } from '#features/core/accounts/accounts.ts'
import { getPlanTerms } from '#features/core/accounts/plans.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { GUIDELINES } from '#features/reporting/insights/stats.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { Count, DataBody, Nullable } from '#platform/http/schemas.ts'
import { MAX_BOUNCE_PERCENT, MAX_COMPLAINTS_PER_MILLE, MIN_VOLUME, readAbuseStats, WINDOW_HOURS } from './rates.ts'

const Limits = (rate: string, pause: string) =>
  Type.Object(
    {
      warning: Type.Number({ description: 'From here on receivers take the mail for unwanted.' }),
      pause: Type.Number({ description: pause }),
    },
    { description: `Limits of ${rate}.` },
  )

const AccountReputation = Type.Object({
  period_hours: Count('Length of the period up to now; shorter after the account was resumed.'),
  delivered: Count('Recipients whose server accepted the mail.'),
  bounced: Count('Recipients that were rejected permanently.'),
  complained: Count('Complaints from verified feedback loops.'),
  bounce_rate: Nullable(Type.Number(), { description: 'bounced / (delivered + bounced), 0..1; null when both are 0.' }),
  complaint_rate: Nullable(Type.Number(), { description: 'complained / delivered; null when nothing was delivered.' }),
  limits: Type.Object(
    {
      bounce_rate: Limits('bounce_rate', 'From here on sending is paused.'),
      complaint_rate: Limits(
        'complaint_rate',
        'From here on sending is paused, if complaints of several people came from two providers.',
      ),
    },
    { description: 'Limits of the rates.' },
  ),
  minimum_recipients: Count('Delivered and bounced recipients below which no rate pauses the account.'),
  can_pause: Type.Boolean({ description: 'False if accounts of this plan are not paused by their rates.' }),
})

const toRate = (part: number, whole: number): number | null => (whole === 0 ? null : part / whole)

export const reputationRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/account', tags: ['Account'] }).use(authenticated).get(
    '/reputation',
    ({ actor: { accountId } }) => {
      const { delivered, bounced, complained } = readAbuseStats(app.db, accountId, app.eventTime())
      return dataBody({
        period_hours: WINDOW_HOURS,
        delivered,
        bounced,
        complained,
        bounce_rate: toRate(bounced, delivered + bounced),
        complaint_rate: toRate(complained, delivered),
        limits: {
          bounce_rate: { warning: GUIDELINES.bounce_pct_warn / 100, pause: MAX_BOUNCE_PERCENT / 100 },
          complaint_rate: { warning: GUIDELINES.complaint_pct_warn / 100, pause: MAX_COMPLAINTS_PER_MILLE / 1000 },
        },
        minimum_recipients: MIN_VOLUME,
        can_pause: getPlanTerms(app.config, getAccount(app.config, app.db, accountId).plan).isWatched,
      })
    },
    {
      response: DataBody(AccountReputation),
      detail: describeRoute(
        'Get the bounce and complaint rates',
        requires('account:read'),
        'Those of the last 24 hours by which the account is monitored, with the limits at which receivers distrust its mail and at which sending is paused. Sandbox mail is not counted.',
      ),
    },
  )
