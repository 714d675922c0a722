/** @module `tassis webhooks`: lists webhooks and their deliveries, tests them, shows or rotates their secrets. */
import { type Command, Option } from 'commander'
import { type Account, findAccount, getAccount, listAccounts } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { findRouteById, formatRouteLabel } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { DELIVERY_STATUSES, type DeliveryStatus, WEBHOOK_EVENTS } from '#features/webhooks/webhooks/event-names.ts'
import { getDelivery, HISTORY_EVENTS, listDeliveries } from '#features/webhooks/webhooks/history/history.ts'
import { type DeliveryRecord, toDeliveryWire, toWebhookWire } from '#features/webhooks/webhooks/history/model.ts'
import { sendTestEvent } from '#features/webhooks/webhooks/history/test-event.ts'
import {
  revealInboundSecret,
  revealSecret,
  rotateInboundSecret,
  rotateSecret,
} from '#features/webhooks/webhooks/manage/secrets.ts'
import { findWebhook, listWebhooksWithRoutes, type Webhook } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { formatRelativeTime, truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { findAccountId, resolveOperator } from '../find-account.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand, UsageError } from './admin-command.ts'
import { type Call, runAdminCommand, withData } from './call.ts'
import {
  type AccountOption,
  addCommand,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
  withLimit,
} from './options.ts'
import {
  formatCount,
  formatList,
  formatUtc,
  type List,
  print,
  printJson,
  printResult,
  printSecret,
  toList,
  toPrintable,
} from './output.ts'

function toWebhookView(app: App, webhook: Webhook, { name, uuid }: Account) {
  const route = webhook.routeId === null ? undefined : findRouteById(app.db, webhook.routeId)
  return {
    ...toWebhookWire(webhook, formatUuid(uuid)),
    account: name,
    // Deactivated by failures, not by its user.
    off_by_failures: webhook.offByFailures,
    // Address of the inbound route, such as `support@example.com`, to which it belongs; null: to none.
    route: webhook.routeId === null ? null : route ? formatRouteLabel(route) : 'a deleted domain',
  }
}

type WebhookView = ReturnType<typeof toWebhookView>

/** Used in place of a webhook id; means the secret that all inbound routes of an account share. */
const INBOUND_SECRET_ID = 'inbound'

/** What a rotation means for receivers. */
const ROTATED =
  'Give it to the receiver within a day: until then webhook-signature has the signatures of both secrets, X-Service-Signature only that of the new one.'

/** Finds a webhook with its account. Ids are unique over all accounts, so no `--account` is needed. */
function resolveWebhook(app: App, id: string): { webhook: Webhook; account: Account; actor: Actor } {
  if (id === INBOUND_SECRET_ID)
    throw notFound(
      'webhook_not_found',
      '`inbound` names only a secret; use the ID of a route, as shown by `tassis webhooks list`.',
    )
  const webhook = findWebhook(app.db, id)
  const account = webhook && findAccount(app.config, app.db, webhook.accountId)
  if (!webhook || !account) throw notFound('webhook_not_found', 'Webhook not found; `tassis webhooks list` shows all.')
  return { webhook, account, actor: toOperatorActor(account) }
}

/** Maximum number of webhooks listed per account, including those of its routes. */
const MAX_LISTED = 1100

const list = defineAdminCommand('webhooks.list', ({ opened: { app } }, { account }: AccountOption) => {
  const only = findAccountId(app, account)
  const accounts = only === undefined ? listAccounts(app.config, app.db) : [getAccount(app.config, app.db, only)]
  return accounts.flatMap((owner) =>
    listWebhooksWithRoutes(app.db, owner.id, MAX_LISTED).map((webhook) => toWebhookView(app, webhook, owner)),
  )
})

interface WebhookInput {
  readonly webhook: string
}

const secret = defineAdminCommand(
  'webhooks.secret',
  async ({ opened: { app } }, { webhook: id, rotate }: WebhookInput & { readonly rotate: boolean }) => {
    const { webhook, actor, account } = resolveWebhook(app, id)
    if (webhook.routeId !== null)
      throw conflict(
        'inbound_route_webhook',
        `This is the webhook of an inbound route; all routes of an account share one secret: tassis webhooks secret inbound --account ${formatUuid(account.uuid)}`,
      )
    return { id, url: webhook.url, secret: await (rotate ? rotateSecret : revealSecret)(app, actor, id) }
  },
)

const inboundSecret = defineAdminCommand(
  'webhooks.inbound-secret',
  async ({ opened: { app } }, { account, rotate }: AccountOption & { readonly rotate: boolean }) => {
    const actor = resolveOperator(app, account)
    const { name } = getAccount(app.config, app.db, actor.accountId)
    return {
      account_id: actor.accountUuid,
      account: name,
      secret: await (rotate ? rotateInboundSecret : revealInboundSecret)(app, actor),
    }
  },
)

const test = defineAdminCommand(
  'webhooks.test',
  async ({ opened: { app }, delivery }, { webhook: id }: WebhookInput) => {
    const { webhook, actor } = resolveWebhook(app, id)
    // Also finds the webhook of a route, which the API does not find by this id.
    const { deliveryId, payload } = await sendTestEvent(app, actor, id, () => resolveWebhook(app, id).webhook)
    return { delivery_id: deliveryId, url: webhook.url, payload, is_served: delivery !== undefined }
  },
)

const delivery = defineAdminCommand(
  'webhooks.delivery',
  ({ opened: { app } }, { webhook: id, delivery: deliveryId }: WebhookInput & { readonly delivery: string }) => {
    const { webhook } = resolveWebhook(app, id)
    return toDeliveryWire(getDelivery(app.db, webhook, deliveryId), webhook, app.keys)
  },
)

interface DeliveriesInput extends WebhookInput {
  readonly status?: DeliveryStatus | undefined
  readonly event?: string | undefined
  readonly limit: number
}

const deliveries = defineAdminCommand(
  'webhooks.deliveries',
  ({ opened: { app } }, { webhook: id, status, event, limit }: DeliveriesInput) => {
    const { webhook, account } = resolveWebhook(app, id)
    const found = listDeliveries(app.db, webhook, { status, event }, { limit, offset: 0 })
    const rows = found.deliveries.map((row) => ({
      ...toDeliveryWire(row, webhook, app.keys),
      inbound_email_id: row.inboundEmailId,
    }))
    return { webhook: toWebhookView(app, webhook, account), ...toList(rows, found.total) }
  },
)

export const webhookAdminCommands = [list, secret, inboundSecret, test, delivery, deliveries]

export function addWebhookCommands(program: Command): void {
  const webhooks = program.command('webhooks').description('list and test webhooks, show or rotate their secrets')

  withAccount(addCommand(webhooks, 'list', 'list the webhooks of all accounts'), ONLY_ACCOUNT_DESCRIPTION).action(
    async (options: JsonOption & AccountOption) => {
      const found = toList(await runAdminCommand(list, options))
      printResult(options, found, (shown) => formatWebhooks(shown, systemClock.now()))
    },
  )

  withAccount(
    addCommand(webhooks, 'secret', 'show or replace the signing secret of a webhook; requires --reveal or --rotate'),
    'with `inbound`: the account; required only if there are several',
  )
    .argument(
      '<id>',
      'webhook ID, as shown by `tassis webhooks list`, or `inbound` for the shared secret of all inbound routes of an account',
    )
    .addOption(new Option('--reveal', 'show the secret').conflicts('rotate'))
    .option(
      '--rotate',
      'replace the secret; later attempts are signed with the new one, and for a day with the old one too',
    )
    .action(async (id: string, options: JsonOption & AccountOption & { reveal?: boolean; rotate?: boolean }) => {
      const rotate = options.rotate === true
      if (!rotate && !options.reveal)
        throw new UsageError('Use --reveal to show the secret, or --rotate to replace it.')
      const { account } = options
      const isInbound = id === INBOUND_SECRET_ID
      if (!isInbound && account !== undefined)
        throw new UsageError(
          '--account is only for `tassis webhooks secret inbound`; a webhook ID already identifies its account.',
        )
      const found = isInbound
        ? await runAdminCommand(inboundSecret, { rotate, account })
        : await runAdminCommand(secret, { webhook: id, rotate })
      const owner = 'url' in found ? `webhook to ${found.url}` : `inbound routes of ${found.account}`
      const sentence = rotate
        ? `This is the new secret of the ${owner}. ${ROTATED}`
        : `This is the secret of the ${owner}. The audit log records that it was shown.`
      printSecret(options, found, found.secret, toPrintable(sentence))
    })

  addCommand(webhooks, 'test', 'send a test event and show the result; exit code 1 unless the response is a 2xx')
    .argument('<id>', 'webhook ID, as shown by `tassis webhooks list`')
    .action(async (id: string, options: JsonOption) => {
      await withData(loadConfig().config, async (call) => {
        const queued = await call(test, { webhook: id })
        const ended = await waitForOutcome(call, id, queued.delivery_id, queued.is_served)
        if (options.json) printJson(ended)
        else print(formatTest(queued.url, id, queued.is_served, ended))
        if (queued.is_served && ended.status !== 'delivered') process.exitCode = 1
      })
    })

  withLimit(addCommand(webhooks, 'deliveries', 'list the last deliveries of a webhook, newest first'), 'deliveries', 25)
    .argument('<id>', 'webhook ID, as shown by `tassis webhooks list`')
    .addOption(new Option('--status <status>', 'filter by status').choices(DELIVERY_STATUSES))
    .addOption(new Option('--event <event>', 'filter by event').choices(HISTORY_EVENTS))
    .action(async (id: string, options: JsonOption & Omit<DeliveriesInput, 'webhook'>) => {
      const { json: _, ...filter } = options
      const found = await runAdminCommand(deliveries, { webhook: id, ...filter })
      printResult(options, found, (shown) => formatDeliveries(shown, systemClock.now()))
    })
}

/** An attempt may take 10 s, and may have to wait for another attempt first. */
const TEST_TIMEOUT_MS = seconds(20)
const POLL_INTERVAL_MS = 200

/** Returns the delivery when its attempt has ended, or its current state at the timeout. */
async function waitForOutcome(call: Call, webhook: string, id: string, isServed: boolean): Promise<DeliveryRecord> {
  const deadlineMs = systemClock.monotonicMs() + TEST_TIMEOUT_MS
  for (;;) {
    const found = await call(delivery, { webhook, delivery: id })
    if (!isServed || found.status !== 'pending' || systemClock.monotonicMs() > deadlineMs) return found
    await systemClock.sleep(POLL_INTERVAL_MS)
  }
}

function formatTest(url: string, id: string, isServed: boolean, ended: DeliveryRecord): string {
  const to = toPrintable(url)
  if (!isServed) return `No service is running: the test event to ${to} is queued until one starts.`
  switch (ended.status) {
    case 'delivered':
      return `Delivered to ${to}: ${ended.status_code} after ${ended.duration_ms} ms.`
    case 'pending':
      return `Not sent yet: earlier deliveries to ${to} are still in progress. \`tassis webhooks deliveries ${id}\` shows the result.`
    default:
      return [
        `Not delivered to ${to}: ${toPrintable(ended.error ?? 'it failed')}`,
        ...(ended.response
          ? [`The response began: ${truncate(toPrintable(ended.response), MAX_RESPONSE_LENGTH)}`]
          : []),
      ].join('\n')
  }
}

const MAX_RESPONSE_LENGTH = 300
/** Fits the longest reasons that Tassis writes itself, with a long host name. */
const MAX_ERROR_LENGTH = 250

/** Formats the state of a webhook, with its consecutive failures while it is active. */
function formatState(webhook: WebhookView): string {
  if (webhook.off_by_failures) return 'deactivated by failures'
  if (!webhook.is_active) return 'deactivated by user'
  return webhook.failure_count === 0 ? 'active' : `active, ${formatCount(webhook.failure_count, 'failure')} in a row`
}

const formatAgo = (iso: string | null, now: number): string =>
  iso === null ? 'never' : formatRelativeTime(Date.parse(iso), now)

function formatWebhooks(list: List<WebhookView>, now: number): string {
  const hasSeveralAccounts = new Set(list.data.map(({ account_id }) => account_id)).size > 1
  const deactivated = list.data.find((webhook) => webhook.off_by_failures)
  return [
    formatList(
      list,
      'There is no webhook; POST /v1/webhooks creates one for the account of the API key.',
      [
        ...['ID', 'KIND', 'STATE', 'URL', 'LAST SUCCESS', 'LAST FAILURE', 'WHY'],
        ...(hasSeveralAccounts ? ['ACCOUNT'] : []),
        'EVENTS',
      ],
      (webhook) => [
        webhook.id,
        webhook.route === null ? 'webhook' : 'route',
        formatState(webhook),
        webhook.url,
        formatAgo(webhook.last_success_at, now),
        formatAgo(webhook.last_failure_at, now),
        truncate(webhook.last_failure_reason ?? '', MAX_ERROR_LENGTH),
        ...(hasSeveralAccounts ? [webhook.account] : []),
        formatEvents(webhook),
      ],
    ),
    ...(deactivated
      ? [
          '',
          `${deactivated.route === null ? 'A webhook deactivated by failures stays inactive until its user sends PUT /v1/webhooks/{id} with url, events and is_active.' : 'A route whose webhook was deactivated by failures posts nothing until its user sends PUT /v1/inbound-routes/{id} with any field.'} The failures: tassis webhooks deliveries ${deactivated.id} --status undeliverable`,
        ]
      : []),
  ].join('\n')
}

const formatEvents = ({ events, route }: WebhookView): string => {
  if (route !== null) return `mail to ${route} (inbound route)`
  return WEBHOOK_EVENTS.every((event) => events.includes(event)) ? 'all' : events.join(',')
}

function formatDeliveries(found: Awaited<ReturnType<typeof deliveries.run>>, now: number): string {
  const { webhook } = found
  return [
    `${toPrintable(webhook.url)} (account ${toPrintable(webhook.account)}): ${formatState(webhook)}`,
    ...(found.data.length > 0 ? [''] : []),
    formatList(
      found,
      'No deliveries found.',
      ['WHEN', 'EVENT', 'STATUS', 'ATTEMPTS', 'RESPONSE', 'TOOK', 'EMAIL', 'ID', ''],
      (row) => [
        formatUtc(row.attempted_at ?? row.created_at),
        row.event,
        row.status,
        String(row.attempts),
        row.status_code === null ? '-' : String(row.status_code),
        row.duration_ms === null ? '-' : `${row.duration_ms} ms`,
        row.email_id ?? row.inbound_email_id ?? '-',
        row.id,
        formatNote(row, now),
      ],
    ),
  ].join('\n')
}

/** Formats the next attempt and the error. */
const formatNote = (row: DeliveryRecord, now: number): string =>
  [
    ...(row.next_attempt_at === null
      ? []
      : [`next attempt ${formatRelativeTime(Date.parse(row.next_attempt_at), now)}`]),
    ...(row.error === null ? [] : [truncate(row.error, MAX_ERROR_LENGTH)]),
  ].join(': ')
