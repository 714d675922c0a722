/**
 * @module /v1/account/reputation: the rates by which the account is monitored, beside their limits. /v1/operator:
 * whether an account may send and why, its pause, abuse findings.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type Account, findFilteredAccountId, getAccount, requireAccount } from '#features/core/accounts/accounts.ts'
import { OfAccountQuery, OPERATOR_ACCOUNT_FIELDS, toOperatorAccount } from '#features/core/accounts/model.ts'
import { findPause, findSendingBlock } from '#features/core/accounts/pause.ts'
import { getPlanTerms } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute, requires } from '#features/core/app/http.ts'
import { auditChange, recordView, toServiceActor } from '#features/core/audit-logs/audit.ts'
import { listMembers } from '#features/people/team/users.ts'
import { readComplaintRate } from '#features/receiving/complaints/rate.ts'
import { GUIDELINES } from '#features/reporting/insights/stats.ts'
import { POOL_FIELDS, readPools } from '#features/sending/delivery/control/pools.ts'
import { countHeld } from '#features/sending/queue/hold-transitions.ts'
import { conflict, invalid } from '#platform/errors.ts'
import { describeRoute } from '#platform/http/access.ts'
import { dataBody, isoTime, pageById, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { Count, DataBody, Nullable } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { type AbuseFinding, listFindings, pauseAccount, resumeAccount } from './pause.ts'
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

const MAX_PAUSE_REASON_LENGTH = 300

const STATUS_FIELDS = {
  ...OPERATOR_ACCOUNT_FIELDS,
  ...POOL_FIELDS,
  stopped: S.TextOrNull('Why it may not send, a sentence; null: it may.'),
  paused: S.NullablePart('Its pause, or that of its parent; null: neither is paused.', {
    since: S.Timestamp({ description: 'Since when.' }),
    source: S.Text('What paused it: reputation, scam_classifier, registration_burst or admin.'),
    reason: S.Text('Why, a sentence that its users see.'),
  }),
  held: S.Count('Recipients whose mail is held, as far as they are counted.'),
  judged: Type.Boolean({ description: 'Whether its rates can pause it, which depends on its plan.' }),
  last_24_hours: S.Part('Since it was resumed, at most 24 hours.', {
    delivered: S.Count('Delivered recipients.'),
    bounced: S.Count('Bounced recipients.'),
    complained: S.Count('Complaints from verified feedback loops.'),
    bounce_percent: S.Nullable(Type.Number(), { description: 'Bounces per 100; null: nothing was sent.' }),
    complaints_per_mille: S.Nullable(Type.Number(), { description: 'Complaints per 1,000; null: none delivered.' }),
  }),
  thresholds: S.Part('When it is paused automatically.', {
    minimum_volume: S.Count('Recipients from which on the rates are checked.'),
    bounce_percent: Type.Number({ description: 'Bounces per 100 at which it is paused.' }),
    complaints_per_mille: Type.Number({ description: 'Complaints per 1,000 at which it is paused.' }),
  }),
}
const OperatorAccountStatus = Type.Object(STATUS_FIELDS)
const OperatorAccountDetail = Type.Object({
  ...STATUS_FIELDS,
  last_30_days: S.Part('Complaint rate of 30 days.', {
    delivered: S.Count('Delivered recipients, without sandbox mail.'),
    complaints: S.Count('Complaints.'),
    rate: S.Nullable(Type.Number(), { description: 'Complaints per delivered recipient; null: none delivered.' }),
  }),
  members: Type.Array(Type.Object({ email: S.Text('Address of the user.'), role: S.Text('Role of the user.') }), {
    description: 'Its team, at most 20.',
  }),
})

const PauseRequest = S.StrictObject({
  reason: Type.String({
    minLength: 1,
    maxLength: MAX_PAUSE_REASON_LENGTH,
    description: 'Why, in one sentence; the users of the account read it.',
  }),
})
const ResumeResult = Type.Object({
  account: S.Text('Name of the account.'),
  released: S.Count('Recipients whose mail is released, as far as they are counted.'),
  released_is_at_least: Type.Boolean({ description: 'Whether there may be more.' }),
  still_stopped: S.TextOrNull('Why it still may not send; null: it may.'),
})

const Finding = Type.Object({
  id: S.Text('Id of the finding.'),
  account_id: S.Uuid({ description: 'Id of the account.' }),
  account: S.Text('Name of the account.'),
  source: S.Text('What found it: reputation, scam_classifier, registration_burst or admin.'),
  reason: S.Text('The finding, a sentence.'),
  paused: Type.Boolean({ description: 'Whether it paused the account.' }),
  email_id: S.UuidOrNull('Id of the email; null: none, or it is deleted.'),
  detail: S.Nullable(Type.Unknown(), { description: 'Figures, links and words of the finding.' }),
  created_at: S.Timestamp({ description: 'When it was found.' }),
})
type Finding = Static<typeof Finding>

const toFindingWire = ({ accountUuid, accountName, ...finding }: AbuseFinding): Finding =>
  toWire(Finding, finding, {
    id: String(finding.id),
    account_id: formatUuid(accountUuid),
    account: accountName,
    paused: finding.paused === 1,
    email_id: finding.emailUuid && formatUuid(finding.emailUuid),
    detail: finding.detail === null ? null : JSON.parse(finding.detail),
  })

const params = Type.Object({ id: S.Text('Id of the account.') })
const RATE_DAYS = 30
const MAX_MEMBERS_SHOWN = 20
const ACCOUNT_NOT_FOUND = ['account_not_found', 'No account has this id.'] as const

export const operatorAbuseRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get(
      '/accounts/:id',
      async ({ actor, params: { id } }) => {
        const account = requireAccount(app, id)
        await recordView(app, actor, { name: 'account', id: formatUuid(account.uuid) })
        return dataBody(toAccountDetail(app, account))
      },
      {
        params,
        response: S.DataBody(OperatorAccountDetail),
        detail: operatorRoute('Get an account', undefined, { 404: ACCOUNT_NOT_FOUND }),
      },
    )
    .post(
      '/accounts/:id/pause',
      async ({ actor, body, params: { id } }) => {
        await pauseByOperator(app, actor, requireAccount(app, id), body.reason)
        return dataBody(toAccountDetail(app, requireAccount(app, id)))
      },
      {
        params,
        body: PauseRequest,
        response: S.DataBody(OperatorAccountDetail),
        detail: operatorRoute(
          'Pause an account',
          'It cannot send, and its queued mail is held. Its users are told, with the reason.',
          { 404: ACCOUNT_NOT_FOUND, 409: ['account_paused', 'The account is paused already.'] },
        ),
      },
    )
    .post(
      '/accounts/:id/resume',
      async ({ actor, params: { id } }) => dataBody(await resumeByOperator(app, actor, requireAccount(app, id))),
      {
        params,
        response: S.DataBody(ResumeResult),
        detail: operatorRoute('Resume a paused account', 'Its held mail is queued again.', {
          404: ACCOUNT_NOT_FOUND,
          409: ['account_not_paused', 'The account is not paused.'],
        }),
      },
    )
    .get(
      '/findings',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'findings' })
        const page = S.parsePage(query)
        const { rows, total } = listFindings(app.db, findFilteredAccountId(app, query.account_id), page)
        return pageById(rows, { ...page, total }, toFindingWire)
      },
      {
        query: OfAccountQuery,
        response: S.PageBody(Finding),
        detail: operatorRoute(
          'List abuse findings',
          'What the monitoring of accounts found, and pauses; newest first.',
        ),
      },
    )

function toAccountDetail(app: App, account: Account) {
  const to = app.clock.now()
  return {
    ...readAccountStatus(app, account),
    last_30_days: readComplaintRate(app.db, account.id, { from: to - days(RATE_DAYS), to }),
    members: listMembers(app.db, account.id)
      .slice(0, MAX_MEMBERS_SHOWN)
      .map(({ email, role }) => ({ email, role })),
  }
}

/**
 * Maximum number of recipients examined per email status to count the held ones; examining that many takes some 50 ms.
 */
const MAX_COUNTED_RECIPIENTS = 20_000

/** An account with what decides whether it may send. */
function readAccountStatus(app: App, account: Account): Static<typeof OperatorAccountStatus> {
  const { config, db, eventTime } = app
  const { delivered, bounced, complained } = readAbuseStats(db, account.id, eventTime())
  const paused = findPause(db, account.id)
  const toRate = (part: number, whole: number, of: number) =>
    whole <= 0 ? null : Math.round((part / whole) * of * 100) / 100
  return {
    ...toOperatorAccount(app, account),
    ...readPools(app, account.id),
    stopped: findSendingBlock(db, account.id) ?? null,
    paused: paused ? { since: isoTime(paused.since), source: paused.source, reason: paused.reason } : null,
    held: countHeld(db, account.id, MAX_COUNTED_RECIPIENTS).held,
    judged: getPlanTerms(config, account.plan).isWatched,
    last_24_hours: {
      delivered,
      bounced,
      complained,
      bounce_percent: toRate(bounced, delivered + bounced, 100),
      complaints_per_mille: toRate(complained, delivered, 1000),
    },
    thresholds: {
      minimum_volume: MIN_VOLUME,
      bounce_percent: MAX_BOUNCE_PERCENT,
      complaints_per_mille: MAX_COMPLAINTS_PER_MILLE,
    },
  }
}

/** Pauses an account. Throws 422 for an empty or too long reason, 409 when it is paused already. */
async function pauseByOperator(app: App, operator: Actor, account: Account, text: string): Promise<void> {
  const reason = text.trim().replace(/\s+/g, ' ')
  if (reason === '' || reason.length > MAX_PAUSE_REASON_LENGTH)
    throw invalid(
      'reason',
      `The reason must have 1 to ${MAX_PAUSE_REASON_LENGTH} characters; the users of the account read it.`,
    )
  const isPaused = await app.commit.writeFromReserve((tx) => {
    if (!pauseAccount(app, tx, toAccountActor(operator, account), { source: 'admin', reason })) return false
    // The entry of the service, which names the person.
    const actor = toServiceActor(operator)
    auditChange(app, tx, actor, 'operator.account_paused', account.uuid, { reason }, 'account')
    return true
  })
  if (!isPaused)
    throw conflict(
      'account_paused',
      `The account ${account.name} is already paused; \`tassis accounts show\` shows why.`,
    )
}

/** Resumes an account. Throws 409 when it is not paused. */
async function resumeByOperator(app: App, operator: Actor, account: Account): Promise<Static<typeof ResumeResult>> {
  const { held, isAll } = countHeld(app.db, account.id, MAX_COUNTED_RECIPIENTS)
  const isResumed = await app.commit.writeFromReserve((tx) => {
    if (!resumeAccount(app, tx, toAccountActor(operator, account))) return false
    const actor = toServiceActor(operator)
    auditChange(app, tx, actor, 'operator.account_resumed', account.uuid, undefined, 'account')
    return true
  })
  if (!isResumed) throw conflict('account_not_paused', `The account ${account.name} is not paused.`)
  const sendingBlock = findSendingBlock(app.db, account.id) ?? null
  return {
    account: account.name,
    released: sendingBlock === null ? held : 0,
    released_is_at_least: !isAll,
    still_stopped: sendingBlock,
  }
}

/** The operator in the audit log of the account, which its users read: it does not name the person. */
const toAccountActor = ({ type, id }: Actor, account: Account): Actor => ({
  accountId: account.id,
  accountUuid: formatUuid(account.uuid),
  type: 'operator',
  id: type === 'operator' ? id : 'dashboard',
  scopes: new Set(),
})
