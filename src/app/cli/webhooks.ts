/** @module `tassis webhooks`: lists webhooks and their deliveries, tests them, shows or rotates their secrets. */
import { Option } from 'commander'
import type { InboundEmailDelivery, WebhookDeliverySummary } from '#client/api.ts'
import type { OperatorWebhook } from '#client/operator-api.ts'
import { DELIVERY_STATUSES, type DeliveryStatus, WEBHOOK_EVENTS } from '#features/webhooks/webhooks/event-names.ts'
import { HISTORY_EVENTS } from '#features/webhooks/webhooks/history/history.ts'
import { truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { type CommandApi, findAccountFilter, pageSize, readRows } from './api.ts'
import type { Command, Context } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { type AccountOption, MAX_ROWS } from './options.ts'
import {
  type Columns,
  formatCount,
  formatFromNow,
  formatPage,
  formatUtc,
  printResult,
  printSecret,
  toPrintable,
} from './output.ts'

/** Used in place of a webhook id; means the secret that all inbound routes of an account share. */
const INBOUND_SECRET_ID = 'inbound'

/** What a rotation means for receivers. */
const ROTATED =
  'Give it to the receiver within a day: until then webhook-signature has the signatures of both secrets, X-Service-Signature only that of the new one.'

const WEBHOOK_ARGUMENT = 'webhook ID, as shown by `tassis webhooks list`'

interface SecretOptions extends AccountOption {
  readonly reveal?: boolean
  readonly rotate?: boolean
}

interface DeliveryOptions {
  readonly status?: DeliveryStatus | undefined
  readonly event?: (typeof HISTORY_EVENTS)[number] | undefined
  readonly limit: number
}

export function addWebhookCommands(program: Command): void {
  const webhooks = program.command('webhooks').description('list and test webhooks, show or rotate their secrets')

  webhooks
    .add('list', 'list the webhooks of all accounts')
    .accountFilter()
    .answer(async ({ api, options }) => {
      const query = { account_id: await findAccountFilter(api, options), per_page: 100 }
      return readRows(api.operator.listWebhooks(query), MAX_ROWS)
    }, formatWebhooks)

  webhooks
    .add('secret', 'show or replace the signing secret of a webhook; requires --reveal or --rotate')
    .account('with `inbound`: the account; required only if there are several')
    .argument('<id>', `${WEBHOOK_ARGUMENT}, or \`inbound\` for the shared secret of all inbound routes of an account`)
    .addOption(new Option('--reveal', 'show the secret').conflicts('rotate'))
    .option(
      '--rotate',
      'replace the secret; later attempts are signed with the new one, and for a day with the old one too',
    )
    .run(async ({ api, options }: Context<SecretOptions>, id) => {
      if (!options.rotate && !options.reveal)
        throw new UsageError('Use --reveal to show the secret, or --rotate to replace it.')
      const open = id === INBOUND_SECRET_ID ? openInboundSecret : openSecret
      const [owner, shown] = await open(api, options, id)
      const sentence = options.rotate
        ? `This is the new secret of the ${owner}. ${ROTATED}`
        : `This is the secret of the ${owner}. The audit log records that it was shown.`
      printSecret(options, shown, shown.data.secret, toPrintable(sentence))
    })

  webhooks
    .add('test', 'send a test event and show the result; exit code 1 unless the response is a 2xx')
    .argument('<id>', WEBHOOK_ARGUMENT)
    .run(async ({ api, options }, id) => {
      const webhook = (await api.operator.getWebhook(id)).data
      const { data: queued } = await hooksOf(api, webhook).test(id)
      const ended = await waitForOutcome(api, webhook, queued.delivery_id)
      printResult(options, { data: ended }, () => formatTest(api, webhook, ended))
      if (api.isServed && ended.status !== 'delivered') process.exitCode = 1
    })

  webhooks
    .add('deliveries', 'list the last deliveries of a webhook, newest first')
    .limit('deliveries', 25)
    .argument('<id>', WEBHOOK_ARGUMENT)
    .addOption(new Option('--status <status>', 'filter by status').choices(DELIVERY_STATUSES))
    .addOption(new Option('--event <event>', 'filter by event; not for an inbound route').choices(HISTORY_EVENTS))
    .run(async ({ api, options }: Context<DeliveryOptions>, id) => {
      const { data: webhook } = await api.operator.getWebhook(id)
      const { status, event, limit } = options
      const pages = listDeliveries(api, webhook, { status, event, per_page: pageSize(limit) })
      const found = await readRows<DeliveryPage>(pages, limit)
      printResult(options, found, () =>
        [
          `${toPrintable(webhook.url)} (account ${toPrintable(webhook.account)}): ${formatState(webhook)}`,
          ...(found.data.length > 0 ? [''] : []),
          formatPage(found, 'No deliveries found.', DELIVERY_COLUMNS),
        ].join('\n'),
      )
    })
}

type Delivery = WebhookDeliverySummary | InboundEmailDelivery
interface DeliveryPage {
  readonly data: readonly Delivery[]
}

/** The routes of the account for its webhook, or for its inbound route of the same id. */
const hooksOf = (api: CommandApi, { account_id: account, route }: OperatorWebhook) =>
  route === null ? api.as(account).webhooks : api.as(account).inboundRoutes

function listDeliveries(
  api: CommandApi,
  { id, account_id: account, route }: OperatorWebhook,
  { event, ...query }: Omit<DeliveryOptions, 'limit'> & { readonly per_page: number },
) {
  if (route === null) return api.as(account).webhooks.listDeliveries(id, { ...query, event })
  if (event !== undefined) throw new UsageError('An inbound route has no deliveries to filter by event.')
  return api.as(account).inboundRoutes.listDeliveries(id, query)
}

type OpenedSecret = readonly [owner: string, shown: { readonly data: { readonly secret: string } }]

async function openSecret(api: CommandApi, { account, rotate }: SecretOptions, id: string): Promise<OpenedSecret> {
  if (account !== undefined)
    throw new UsageError(
      '--account is only for `tassis webhooks secret inbound`; a webhook ID already identifies its account.',
    )
  const { data: webhook } = await api.operator.getWebhook(id)
  if (webhook.route !== null)
    throw new CommandError(
      `This is the webhook of an inbound route; all routes of an account share one secret: tassis webhooks secret inbound --account ${webhook.account_id}`,
      'inbound_route_webhook',
    )
  const { webhooks } = api.as(webhook.account_id)
  return [`webhook to ${webhook.url}`, await (rotate ? webhooks.rotateSecret(id, {}) : webhooks.revealSecret(id))]
}

async function openInboundSecret(api: CommandApi, { rotate }: SecretOptions): Promise<OpenedSecret> {
  const { data: account } = await api.account.get()
  const shown = await (rotate ? api.inboundRoutes.rotateSecret() : api.inboundRoutes.revealSecret())
  return [`inbound routes of ${account.name}`, shown]
}

/** An attempt may take 10 s, and may have to wait for another attempt first. */
const TEST_TIMEOUT_MS = seconds(20)
const POLL_INTERVAL_MS = 200

/** Returns the delivery when its attempt has ended, or its current state at the timeout. */
async function waitForOutcome(api: CommandApi, webhook: OperatorWebhook, id: string): Promise<Delivery> {
  const deadlineMs = systemClock.monotonicMs() + TEST_TIMEOUT_MS
  for (;;) {
    const { data }: DeliveryPage = await listDeliveries(api, webhook, { per_page: 100 })
    const found = data.find((delivery) => delivery.id === id)
    if (!found) throw new CommandError('The history of the webhook no longer has the test event.')
    if (!api.isServed || found.status !== 'pending' || systemClock.monotonicMs() > deadlineMs) return found
    await systemClock.sleep(POLL_INTERVAL_MS)
  }
}

function formatTest({ isServed }: CommandApi, { id, url }: OperatorWebhook, ended: Delivery): string {
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
function formatState(webhook: OperatorWebhook): string {
  if (webhook.off_by_failures) return 'deactivated by failures'
  if (!webhook.is_active) return 'deactivated by user'
  return webhook.failure_count === 0 ? 'active' : `active, ${formatCount(webhook.failure_count, 'failure')} in a row`
}

const formatRelative = (iso: string | null): string => (iso === null ? 'never' : formatFromNow(iso))

function formatEvents({ events, route }: OperatorWebhook): string {
  if (route !== null) return `mail to ${route} (inbound route)`
  return WEBHOOK_EVENTS.every((event) => events.includes(event)) ? 'all' : events.join(',')
}

function formatWebhooks(found: { readonly data: readonly OperatorWebhook[] }): string {
  const { data: webhooks } = found
  const deactivated = webhooks.find((webhook) => webhook.off_by_failures)
  const columns: Columns<OperatorWebhook> = {
    ID: ({ id }) => id,
    KIND: ({ route }) => (route === null ? 'webhook' : 'route'),
    STATE: formatState,
    URL: ({ url }) => url,
    'LAST SUCCESS': ({ last_success_at: at }) => formatRelative(at),
    'LAST FAILURE': ({ last_failure_at: at }) => formatRelative(at),
    WHY: ({ last_failure_reason: reason }) => truncate(reason ?? '', MAX_ERROR_LENGTH),
    ...(webhooks.some(({ account_id: id }) => id !== webhooks[0]?.account_id) && { ACCOUNT: ({ account }) => account }),
    EVENTS: formatEvents,
  }
  return [
    formatPage(found, 'There is no webhook; POST /v1/webhooks creates one for the account of the API key.', columns),
    ...(deactivated
      ? [
          '',
          `${deactivated.route === null ? 'A webhook deactivated by failures stays inactive until its user sends PUT /v1/webhooks/{id} with url, events and is_active.' : 'A route whose webhook was deactivated by failures posts nothing until its user sends PUT /v1/inbound-routes/{id} with any field.'} The failures: tassis webhooks deliveries ${deactivated.id} --status undeliverable`,
        ]
      : []),
  ].join('\n')
}

const DELIVERY_COLUMNS: Columns<Delivery> = {
  WHEN: (row) => formatUtc(row.attempted_at ?? row.created_at),
  EVENT: ({ event }) => event,
  STATUS: ({ status }) => status,
  ATTEMPTS: ({ attempts }) => String(attempts),
  RESPONSE: ({ status_code: code }) => String(code ?? '-'),
  TOOK: ({ duration_ms: duration }) => (duration === null ? '-' : `${duration} ms`),
  EMAIL: (row) => ('inbound_email_id' in row ? row.inbound_email_id : row.email_id) ?? '-',
  ID: ({ id }) => id,
  /** The next attempt, and the error. */
  '': ({ next_attempt_at: nextAt, error }) =>
    [nextAt && `next attempt ${formatRelative(nextAt)}`, error && truncate(error, MAX_ERROR_LENGTH)]
      .filter((part) => part)
      .join(': '),
}
