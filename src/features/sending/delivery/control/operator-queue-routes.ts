/** @module /v1/operator/queue: what waits for delivery, and what operators do with it. Paths and schemas. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findAccount, findFilteredAccountId } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView, showView, toServiceActor } from '#features/core/audit-logs/audit.ts'
import { accountOfLane, domainOfLane, isBulkLane, laneLabel } from '#features/sending/queue/lanes.ts'
import type { OpenLane } from '#features/sending/queue/queue.ts'
import { isLaneSelected, QUEUE_RULE_KINDS } from '#features/sending/queue/queue-rules.ts'
import type { RowKey } from '#platform/db/open.ts'
import { dataBody, isoTime, pageBody } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { FindScheduler } from '../schedule/scheduler.ts'
import {
  changeMail,
  holdMail,
  MAX_QUEUE_REASON_LENGTH,
  parseReason,
  parseSelector,
  type QueueAction,
  readRules,
  redirectMail,
  releaseContent,
  releaseMail,
} from './operator-queue.ts'
import { countSelected } from './queue-control.ts'
import { compareLanes, describeLanes, findProviderHolds, getLaneReader, listLaneRecipients } from './queue-view.ts'

const QueueQuery = Type.Object({
  ...S.PAGE_FIELDS,
  account_id: S.Filter('Only mail of the account with this id.'),
  domain: S.Filter('Only mail to this domain.'),
})
const QueueLane = Type.Object({
  lane: S.Text('Name of the lane: the mail of one account to one domain; broadcasts have their own.'),
  account_id: S.Nullable(S.Uuid(), { description: 'Id of the account; null: it is deleted.' }),
  account: S.TextOrNull('Name of the account; null: it is deleted.'),
  domain: S.Text(
    'Domain of the recipients; `sandbox` for mail that is only captured, `simulator` for mail to the simulator.',
  ),
  label: S.Text('The lane for people: its domain, and its account and kind of mail in brackets.'),
  is_broadcast: Type.Boolean({ description: 'Whether it is mail of broadcasts, which yields to other mail.' }),
  waiting: S.Count('Number of recipients.'),
  first_due_at: S.Timestamp({ description: 'When the earliest is due.' }),
  reason: S.Text('Why it waits.'),
})

const SELECTOR_FIELDS = {
  domain: S.Filter(
    'Mail to this domain; `sandbox` for mail that is only captured, `simulator` for mail to the simulator.',
  ),
  provider: S.Filter(
    'Mail to the domains of this provider, by their MX hosts: a name of `GET /v1/operator/providers`.',
  ),
  account_id: S.Filter('Mail of the account with this id.'),
  email_id: S.Filter('This email; without `domain`, `provider` and `account_id`.'),
}
const REASON_FIELD = { reason: S.Filter(`Why, at most ${MAX_QUEUE_REASON_LENGTH} characters.`) }
export const CURSOR_FIELD = { cursor: Type.Optional(S.Text('`next_cursor` of the response before, to continue.')) }
const QueueSelector = S.StrictObject(SELECTOR_FIELDS)
const QueueHoldRequest = S.StrictObject({ ...SELECTOR_FIELDS, ...REASON_FIELD })
const QueueRedirectRequest = S.StrictObject({
  ...SELECTOR_FIELDS,
  ...REASON_FIELD,
  to: Type.String({
    maxLength: S.MAX_FILTER_LENGTH,
    description: '`example.com` (its MX hosts), `[mx.example.com]` or an IP address, each with `:PORT` or without.',
  }),
})
const QueueReleaseRequest = S.StrictObject({
  ...SELECTOR_FIELDS,
  kind: Type.Optional(S.StringEnum(QUEUE_RULE_KINDS, { description: 'Only holds or only redirects; default: both.' })),
})
const QueueChangeRequest = S.StrictObject({ ...SELECTOR_FIELDS, ...CURSOR_FIELD })
const QueueBounceRequest = S.StrictObject({
  ...SELECTOR_FIELDS,
  ...CURSOR_FIELD,
  reason: Type.String({
    maxLength: S.MAX_FILTER_LENGTH,
    description: `Why, 1 to ${MAX_QUEUE_REASON_LENGTH} characters; the senders read it.`,
  }),
})
const HeldMailRelease = Type.Object({
  released: S.Count('Recipients that are due again; those whose content is still missing are held again.'),
})
const QueueSelection = Type.Object({
  waiting: S.Count('Recipients that wait for an attempt.'),
  in_delivery: S.Count('Recipients in delivery, which no action changes.'),
})
const QueueChange = Type.Object({
  changed: S.Count('Recipients that were changed.'),
  in_delivery: S.Count('Recipients that were left alone, because they were in delivery.'),
  held: S.Count('Recipients that were left alone, because an operator holds them.'),
  suspended: Type.Array(Type.String(), {
    description:
      'Suspended providers of the mail that is retried: it waits for their probes, until they are resumed. Empty for other actions.',
  }),
  next_cursor: S.TextOrNull('There is more: repeat the request with this `cursor`. Null: all was examined.'),
})
const QueueRuleRecord = Type.Object({
  id: S.Text('Id of the hold or redirect.'),
  kind: S.StringEnum(QUEUE_RULE_KINDS, { description: 'hold or redirect.' }),
  domain: S.TextOrNull('Domain of the recipients; null: any.'),
  provider: S.TextOrNull('Provider of the domain of the recipients; null: any.'),
  account_id: S.Nullable(S.Uuid(), { description: 'Id of the account; null: any, or it is deleted.' }),
  account: S.TextOrNull('Name of the account; null: any, or it is deleted.'),
  email_id: S.Nullable(S.Uuid(), { description: 'Id of the email; null: not one email.' }),
  to: S.TextOrNull('Where redirected mail goes; null: it is held.'),
  reason: S.Text('Why, in the words of the operator; may be empty.'),
  created_by: S.Text('`cli`, or the id of the user.'),
  created_at: S.Timestamp({ description: 'Since when.' }),
})

const QueueRecipientQuery = Type.Object({
  lane: Type.String({ maxLength: S.MAX_FILTER_LENGTH, description: 'Name of a lane, as in the queue.' }),
})
const QueueRecipient = Type.Object({
  email_id: S.Uuid({ description: 'Id of the email.' }),
  account: S.Text('Name of the account.'),
  lane: S.Text('Name of the lane.'),
  recipient: S.Text('Address of the recipient.'),
  status: S.Text('Status of the recipient.'),
  attempts: S.Count('Number of attempts so far.'),
  next_at: S.Timestamp({ description: 'When the next attempt is due.' }),
  waits_for: S.Nullable(S.StringEnum(['hold', 'fence']), {
    description: 'What an operator must end before that: a hold, or the fence of restored data; null: neither.',
  }),
  last_error: S.TextOrNull('Why the last attempt failed; null: it has not failed.'),
})

const MAX_RECIPIENTS = 50
const NOT_FOUND = ['account_not_found', 'No account has this id; for an email, `email_not_found`.'] as const
const TOO_MANY = ['too_many_queue_rules', 'There are 1,000 holds and redirects.'] as const
const NOT_HELD = [TOO_MANY[0], `${TOO_MANY[1]} For an email that has ended, \`email_ended\`.`] as const

export const operatorQueueRoutes = (app: App, scheduler: FindScheduler) => {
  const readLanes = getLaneReader(app)
  const change = async (actor: Actor, action: QueueAction, body: Static<typeof QueueChangeRequest>, reason = '') => {
    const options = { reason, after: body.cursor }
    return dataBody(await changeMail(app, toServiceActor(actor), action, parseSelector(app, body), options))
  }
  return new Elysia({ prefix: '/v1/operator/queue' })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'queue' })
        const page = S.parsePage(query)
        // Who runs a command may just have changed the queue.
        if (actor.type === 'operator' && !page.after) readLanes.forget()
        const found = filterLanes(app, await readLanes(), query)
        const first = page.after ? findPlaceAfter(found, page.after) : page.offset
        const shown = found.slice(first, first + page.limit)
        const reasons = await describeLanes(app, scheduler(), shown)
        const last = shown.at(-1)
        return pageBody(
          shown.map((lane, i) => toLaneWire(app, lane, reasons[i] ?? '')),
          { ...page, total: found.length },
          last && [last.firstAt, last.lane],
        )
      },
      {
        query: QueueQuery,
        response: S.PageBody(QueueLane),
        detail: operatorRoute(
          'List what waits for delivery',
          'By destination and account, the earliest first, with the reason. May be some seconds old.',
        ),
      },
    )
    .get(
      '/recipients',
      async ({ actor, query }) => {
        // Addresses of other accounts: the entry names the lane.
        await recordView(app, actor, { name: 'queue_lane', id: query.lane })
        const holds = await findProviderHolds(app, [query.lane])
        return dataBody(listLaneRecipients(app.db, query.lane, MAX_RECIPIENTS, holds.get(query.lane)))
      },
      {
        query: QueueRecipientQuery,
        response: S.DataBody(Type.Array(QueueRecipient)),
        detail: operatorRoute(
          'List the recipients of a lane',
          `The ${MAX_RECIPIENTS} whose next attempt is due first.`,
        ),
      },
    )
    .get(
      '/rules',
      showView(app, 'queue', () => readRules(app)),
      {
        response: S.DataBody(Type.Array(QueueRuleRecord)),
        detail: operatorRoute('List holds and redirects', 'Oldest first.'),
      },
    )
    .get(
      '/selection',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'queue' })
        return dataBody(await countSelected(app, parseSelector(app, query)))
      },
      {
        query: QueueSelector,
        response: S.DataBody(QueueSelection),
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
        response: S.DataBody(QueueSelection),
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
        response: S.DataBody(QueueSelection),
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
        response: S.DataBody(Type.Array(QueueRuleRecord)),
        detail: operatorRoute(
          'End holds and redirects',
          'Those that name at least what the request names; the response has them. Their mail is due again.',
          { 404: NOT_FOUND },
        ),
      },
    )
    .post('/release-without-content', async ({ actor }) => dataBody(await releaseContent(app, toServiceActor(actor))), {
      response: S.DataBody(HeldMailRelease),
      detail: operatorRoute(
        'Release mail that waits for missing content',
        'After that content has been restored; the service also looks every hour.',
      ),
    })
    .post('/retry', ({ actor, body }) => change(actor, 'retry', body), {
      body: QueueChangeRequest,
      response: S.DataBody(QueueChange),
      detail: operatorRoute(
        'Retry mail now',
        'Makes mail due that waits for another attempt, except held and scheduled mail, and ends the backoff of its mail hosts. A suspended provider stays suspended.',
        { 404: NOT_FOUND },
      ),
    })
    .post('/bounce', ({ actor, body }) => change(actor, 'bounce', body, parseReason(body.reason, true)), {
      body: QueueBounceRequest,
      response: S.DataBody(QueueChange),
      detail: operatorRoute(
        'Bounce mail',
        'Ends what waits as soft bounces of the category `expired`, with events and dead letters. Mail in delivery is left alone.',
        { 404: NOT_FOUND },
      ),
    })
    .post('/drop', ({ actor, body }) => change(actor, 'drop', body), {
      body: QueueChangeRequest,
      response: S.DataBody(QueueChange),
      detail: operatorRoute(
        'Drop mail',
        'Cancels what waits: no bounce and no dead letter, but an event with the reason `dropped_by_operator`; the quota is given back. A recipient of several, or of a broadcast, is rejected instead. Mail in delivery is left alone.',
        { 404: NOT_FOUND },
      ),
    })
}

function filterLanes(
  app: App,
  lanes: readonly OpenLane[],
  { account_id: id, domain }: Static<typeof QueueQuery>,
): readonly OpenLane[] {
  const selector = { domain: domain?.trim().toLowerCase(), accountId: findFilteredAccountId(app, id) }
  return lanes.filter(({ lane }) => isLaneSelected(selector, lane))
}

/** Index of the first lane after a key: due time and name. */
function findPlaceAfter(lanes: readonly OpenLane[], [firstAt, lane]: RowKey): number {
  const key = { firstAt: Number(firstAt), lane: String(lane) }
  const index = lanes.findIndex((other) => compareLanes(other, key) > 0)
  return index === -1 ? lanes.length : index
}

function toLaneWire(app: App, { lane, waiting, firstAt }: OpenLane, reason: string): Static<typeof QueueLane> {
  const account = findAccount(app.config, app.db, accountOfLane(lane))
  return {
    lane,
    account_id: account ? formatUuid(account.uuid) : null,
    account: account?.name ?? null,
    domain: domainOfLane(lane),
    label: laneLabel(lane, account?.name ?? null),
    is_broadcast: isBulkLane(lane),
    waiting,
    first_due_at: isoTime(firstAt),
    reason,
  }
}
