/** @module `tassis webhooks`: what an operator looks at when somebody is told nothing: the webhooks, their last deliveries, a test, the secret. */
import { type Command, Option } from 'commander'
import { type Account, accountOfActor, findAccount, listAccounts } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { operatorFor } from '#features/people/sub-accounts/create-account.ts'
import { findRouteById, routeLabel } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { DELIVERY_STATUSES, type DeliveryStatus, WEBHOOK_EVENTS } from '#features/webhooks/webhooks/event-names.ts'
import { getDelivery, HISTORY_EVENTS, listDeliveries } from '#features/webhooks/webhooks/history.ts'
import { revealInboundSecret, rotateInboundSecret } from '#features/webhooks/webhooks/inbound-secret.ts'
import {
  type DeliveryRecord,
  deliveryWire,
  type WebhookRecord,
  webhookWire,
} from '#features/webhooks/webhooks/model.ts'
import { revealSecret, rotateSecret } from '#features/webhooks/webhooks/secret.ts'
import { sendTestEvent } from '#features/webhooks/webhooks/test-event.ts'
import { findWebhook, type Webhook, webhooksWithRoutes } from '#features/webhooks/webhooks/webhooks.ts'
import { systemClock } from '#platform/clock.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { seconds } from '#platform/units.ts'
import { loadConfig } from '../settings.ts'
import { operatorOf } from './accounts.ts'
import { type Call, withData } from './call.ts'
import { CommandError, operation } from './operation.ts'
import { type AccountOption, type JsonOption, ONLY_ACCOUNT, withAccount, withJson, withLimit } from './options.ts'
import {
  counted,
  distance,
  print,
  printable,
  printJson,
  report,
  reportSecret,
  shortened,
  table,
  utc,
} from './output.ts'

interface ShownWebhook extends WebhookRecord {
  /** Name of the account. */
  readonly account: string
  /** Switched off by failures, not by its user. */
  readonly off_by_failures: boolean
  /** Whose mail it is told of, `support@example.com`, when it belongs to an inbound route, which has the same id; null: to none. */
  readonly route: string | null
}

function shownWebhook(app: App, webhook: Webhook, { name, uuid }: Account): ShownWebhook {
  const route = webhook.routeId === null ? undefined : findRouteById(app.db, webhook.routeId)
  return {
    ...webhookWire(webhook, formatUuid(uuid)),
    account: name,
    off_by_failures: webhook.offByFailures,
    route: webhook.routeId === null ? null : route ? routeLabel(route) : 'a deleted domain',
  }
}

/** In place of an id: the secret that all inbound routes of an account share. */
const INBOUND = 'inbound'

/** An id names one webhook of all accounts, so nobody has to say which account it is. */
function chosenWebhook(app: App, id: string): { webhook: Webhook; account: Account; actor: Actor } {
  if (id === INBOUND)
    throw notFound(
      'webhook_not_found',
      '`inbound` is only a secret; give the ID of a route, as `tassis webhooks list` shows it.',
    )
  const webhook = findWebhook(app.db, id)
  const account = webhook && findAccount(app.config, app.db, webhook.accountId)
  if (!webhook || !account)
    throw notFound('webhook_not_found', 'There is no webhook with this ID; `tassis webhooks list` shows all.')
  return { webhook, account, actor: operatorFor(account) }
}

/** Most that are listed of an account: its own, and those of its routes. */
const LIST_LIMIT = 1100

const list = operation('webhooks.list', ({ opened: { app } }, { account }: AccountOption) => {
  const accounts =
    account === undefined
      ? listAccounts(app.config, app.db)
      : [accountOfActor(app.config, app.db, operatorOf(app, account).accountId)]
  return accounts.flatMap((owner) =>
    webhooksWithRoutes(app.db, owner.id, LIST_LIMIT).map((webhook) => shownWebhook(app, webhook, owner)),
  )
})

interface WebhookInput {
  /** Its id. */
  readonly webhook: string
}

const secret = operation(
  'webhooks.secret',
  async ({ opened: { app } }, { webhook: id, rotate }: WebhookInput & { readonly rotate: boolean }) => {
    const { webhook, actor, account } = chosenWebhook(app, id)
    if (webhook.routeId !== null)
      throw conflict(
        'inbound_route_webhook',
        `This is the webhook of an inbound route; all routes of an account share one secret: tassis webhooks secret inbound --account ${formatUuid(account.uuid)}`,
      )
    return { id, url: webhook.url, secret: await (rotate ? rotateSecret : revealSecret)(app, actor, id) }
  },
)

const inboundSecret = operation(
  'webhooks.inbound-secret',
  async ({ opened: { app } }, { account, rotate }: AccountOption & { readonly rotate: boolean }) => {
    const actor = operatorOf(app, account)
    const { name } = accountOfActor(app.config, app.db, actor.accountId)
    return {
      account_id: actor.accountUuid,
      account: name,
      secret: await (rotate ? rotateInboundSecret : revealInboundSecret)(app, actor),
    }
  },
)

const test = operation('webhooks.test', async ({ opened: { app }, delivery }, { webhook: id }: WebhookInput) => {
  const { webhook, actor } = chosenWebhook(app, id)
  // That of a route too, which the API does not find by this id.
  const { deliveryId, payload } = await sendTestEvent(app, actor, id, () => chosenWebhook(app, id).webhook)
  return { delivery_id: deliveryId, url: webhook.url, payload, is_served: delivery !== undefined }
})

const delivery = operation(
  'webhooks.delivery',
  ({ opened: { app } }, { webhook: id, delivery: deliveryId }: WebhookInput & { readonly delivery: string }) => {
    const { webhook } = chosenWebhook(app, id)
    return deliveryWire(getDelivery(app.db, webhook, deliveryId), webhook, app.keys)
  },
)

interface DeliveriesInput extends WebhookInput {
  readonly status?: DeliveryStatus
  readonly event?: string
  readonly limit: number
}

const deliveries = operation(
  'webhooks.deliveries',
  ({ opened: { app } }, { webhook: id, status, event, limit }: DeliveriesInput) => {
    const { webhook, account } = chosenWebhook(app, id)
    const found = listDeliveries(app.db, webhook, { status, event }, { limit, offset: 0 })
    return {
      webhook: shownWebhook(app, webhook, account),
      deliveries: found.deliveries.map((row) => ({
        ...deliveryWire(row, webhook, app.keys),
        inbound_email_id: row.inboundEmailId,
      })),
      total: found.total,
    }
  },
)

export const webhookOperations = [list, secret, inboundSecret, test, delivery, deliveries]

export function addWebhookCommands(program: Command): void {
  const webhooks = program.command('webhooks').description('look at webhooks, test them, show or rotate their secrets')

  withAccount(
    withJson(webhooks.command('list').description('list webhooks, of all accounts unless one is given')),
    ONLY_ACCOUNT,
  ).action(async (options: JsonOption & AccountOption) => {
    const { account } = options
    const found = await withData(loadConfig().config, (call) => call(list, account === undefined ? {} : { account }))
    if (!options.json && found.length === 0)
      return print('There is no webhook; POST /v1/webhooks makes one for the account of the API key.')
    report(options, found, (shown) => webhooksText(shown, systemClock.now()))
  })

  withAccount(
    withJson(
      webhooks
        .command('secret')
        .description('show the signing secret of a webhook, or replace it; one of both options is needed'),
    ),
  )
    .argument(
      '<id>',
      'as `tassis webhooks list` shows it, or `inbound`: the one secret of all inbound routes of an account',
    )
    .addOption(new Option('--reveal', 'show it').conflicts('rotate'))
    .option('--rotate', 'replace it by a new one, with which every later attempt is signed')
    .action(async (id: string, options: JsonOption & AccountOption & { reveal?: boolean; rotate?: boolean }) => {
      const rotate = options.rotate === true
      if (!rotate && !options.reveal)
        throw new CommandError('Give --reveal to show the secret, or --rotate to replace it.')
      const { account } = options
      if (id === INBOUND) {
        const input = { rotate, ...(account !== undefined && { account }) }
        const found = await withData(loadConfig().config, (call) => call(inboundSecret, input))
        const owner = printable(found.account)
        return reportSecret(
          options,
          found,
          found.secret,
          rotate
            ? `This is the new secret of the inbound routes of ${owner}. The old one is void as of now: give the receivers the new one.`
            : `This is the secret of the inbound routes of ${owner}. That it was shown is in the audit log.`,
        )
      }
      if (account !== undefined)
        throw new CommandError('--account is for `tassis webhooks secret inbound`; an id names its account by itself.')
      const found = await withData(loadConfig().config, (call) => call(secret, { webhook: id, rotate }))
      const url = printable(found.url)
      reportSecret(
        options,
        found,
        found.secret,
        rotate
          ? `This is the new secret of the webhook to ${url}. The old one is void as of now: give the receiver the new one.`
          : `This is the secret of the webhook to ${url}. That it was shown is in the audit log.`,
      )
    })

  withJson(
    webhooks
      .command('test')
      .description('send a test event and tell how it ends; exit code 1 when it was not answered with a 2xx'),
  )
    .argument('<id>', 'as `tassis webhooks list` shows it')
    .action(async (id: string, options: JsonOption) => {
      await withData(loadConfig().config, async (call) => {
        const queued = await call(test, { webhook: id })
        const ended = await outcomeOf(call, id, queued.delivery_id, queued.is_served)
        if (options.json) printJson(ended)
        else print(testText(queued.url, id, queued.is_served, ended))
        if (queued.is_served && ended.status !== 'delivered') process.exitCode = 1
      })
    })

  withLimit(
    withJson(webhooks.command('deliveries').description('list the last deliveries of a webhook, newest first')),
    'most that are shown',
    25,
  )
    .argument('<id>', 'as `tassis webhooks list` shows it')
    .addOption(new Option('--status <status>', 'only those that stand so').choices(DELIVERY_STATUSES))
    .addOption(new Option('--event <event>', 'only those of this event').choices(HISTORY_EVENTS))
    .action(async (id: string, options: JsonOption & Omit<DeliveriesInput, 'webhook'>) => {
      const { json: _, ...filter } = options
      const found = await withData(loadConfig().config, (call) => call(deliveries, { webhook: id, ...filter }))
      report(options, found, (shown) => deliveriesText(shown, systemClock.now()))
    })
}

/** An attempt has 10 s, and may have to wait for another. */
const TEST_PATIENCE_MS = seconds(20)
const LOOK_EVERY_MS = 200

/** The delivery once its attempt is over, or as it is when patience is. */
async function outcomeOf(call: Call, webhook: string, id: string, isServed: boolean): Promise<DeliveryRecord> {
  const until = systemClock.monotonicMs() + TEST_PATIENCE_MS
  for (;;) {
    const found = await call(delivery, { webhook, delivery: id })
    if (!isServed || found.status !== 'pending' || systemClock.monotonicMs() > until) return found
    await systemClock.sleep(LOOK_EVERY_MS)
  }
}

function testText(url: string, id: string, isServed: boolean, ended: DeliveryRecord): string {
  const to = printable(url)
  if (!isServed) return `No service is running: the test event to ${to} is queued and sent when one starts.`
  switch (ended.status) {
    case 'delivered':
      return `Delivered to ${to}: ${ended.status_code} after ${ended.duration_ms} ms.`
    case 'pending':
      return `Not sent yet: earlier deliveries to ${to} are still under way. \`tassis webhooks deliveries ${id}\` shows how it ends.`
    default:
      return [
        `Not delivered to ${to}: ${printable(ended.error ?? 'it failed')}`,
        ...(ended.response ? [`The answer began: ${shortened(printable(ended.response), LONGEST_ANSWER)}`] : []),
      ].join('\n')
  }
}

const LONGEST_ANSWER = 300
/** The longest reasons that we give ourselves, which say what to do, with a long name in them. */
const LONGEST_ERROR = 250

/** `on`, `off by failures`, `off by its user`; with the failures in a row of one that is on. */
function stateOf(webhook: ShownWebhook): string {
  if (webhook.off_by_failures) return 'off by failures'
  if (!webhook.is_active) return 'off by its user'
  return webhook.failure_count === 0 ? 'on' : `on, ${counted(webhook.failure_count, 'failure')} in a row`
}

const ago = (iso: string | null, now: number): string => (iso === null ? 'never' : distance(Date.parse(iso), now))

function webhooksText(shown: readonly ShownWebhook[], now: number): string {
  const several = new Set(shown.map(({ account_id }) => account_id)).size > 1
  const off = shown.find((webhook) => webhook.off_by_failures)
  return [
    table(
      ['ID', 'KIND', 'STATE', 'URL', 'LAST SUCCESS', 'LAST FAILURE', 'WHY', ...(several ? ['ACCOUNT'] : []), 'EVENTS'],
      shown.map((webhook) => [
        webhook.id,
        webhook.route === null ? 'webhook' : 'route',
        stateOf(webhook),
        webhook.url,
        ago(webhook.last_success_at, now),
        ago(webhook.last_failure_at, now),
        shortened(webhook.last_failure_reason ?? '', LONGEST_ERROR),
        ...(several ? [webhook.account] : []),
        eventsText(webhook),
      ]),
    ),
    ...(off
      ? [
          '',
          off.route === null
            ? `A webhook that is off by failures stays off until its user sends PUT /v1/webhooks/{id} with all of url, events and is_active. Why it failed: tassis webhooks deliveries ${off.id} --status undeliverable`
            : `A route whose webhook is off by failures posts nothing until its user sends PUT /v1/inbound-routes/{id} with any field. Why it failed: tassis webhooks deliveries ${off.id} --status undeliverable`,
        ]
      : []),
  ].join('\n')
}

const eventsText = ({ events, route }: ShownWebhook): string => {
  if (route !== null) return `mail to ${route} (inbound route)`
  return WEBHOOK_EVENTS.every((event) => events.includes(event)) ? 'all' : events.join(',')
}

interface ShownDeliveries {
  readonly webhook: ShownWebhook
  readonly deliveries: readonly (DeliveryRecord & { readonly inbound_email_id: string | null })[]
  readonly total: number
}

function deliveriesText({ webhook, deliveries: shown, total }: ShownDeliveries, now: number): string {
  const head = `${printable(webhook.url)} (account ${printable(webhook.account)}): ${stateOf(webhook)}`
  if (shown.length === 0) return `${head}\nThere is no such delivery.`
  return [
    head,
    '',
    table(
      ['WHEN', 'EVENT', 'STATUS', 'TRIES', 'ANSWER', 'TOOK', 'EMAIL', 'ID', ''],
      shown.map((row) => [
        utc(row.attempted_at ?? row.created_at),
        row.event,
        row.status,
        String(row.attempts),
        row.status_code === null ? '-' : String(row.status_code),
        row.duration_ms === null ? '-' : `${row.duration_ms} ms`,
        row.email_id ?? row.inbound_email_id ?? '-',
        row.id,
        noteOf(row, now),
      ]),
    ),
    ...(total > shown.length ? [`… and ${total - shown.length} more (--limit)`] : []),
  ].join('\n')
}

/** What is still to come, and what was wrong. */
const noteOf = (row: DeliveryRecord, now: number): string =>
  [
    ...(row.next_attempt_at === null ? [] : [`next try ${distance(Date.parse(row.next_attempt_at), now)}`]),
    ...(row.error === null ? [] : [shortened(row.error, LONGEST_ERROR)]),
  ].join(': ')
