/** @module `tassis webhooks`: lists webhooks and their deliveries, tests them, shows or rotates their secrets. */
import { Option } from 'commander'
import type { InboundEmailDelivery, WebhookDeliverySummary } from '#client/api.ts'
import type { OperatorWebhook } from '#client/operator-api.ts'
import { DELIVERY_STATUSES, type DeliveryStatus, WEBHOOK_EVENTS } from '#features/webhooks/webhooks/event-names.ts'
import { HISTORY_EVENTS } from '#features/webhooks/webhooks/history/history.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { type CommandApi, pageSize, readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { type AccountOption, MAX_ROWS } from './options.ts'
import { type Columns, fields, formatFields, printSecret } from './output.ts'

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
    .list(
      async ({ api, query }) => readRows(api.operator.listWebhooks({ ...query, per_page: 100 }), MAX_ROWS),
      'There is no webhook; POST /v1/webhooks creates one for the account of the API key.',
      WEBHOOK_COLUMNS,
    )

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
      const shown = await (id === 'inbound' ? openInboundSecret(api, options) : openSecret(api, options, id))
      const sentence = options.rotate ? ROTATED : 'The audit log records that it was shown.'
      printSecret(options, shown, shown.data.secret, sentence)
    })

  webhooks
    .add('test', 'send a test event and show the result; exit code 1 unless the response is a 2xx')
    .argument('<id>', WEBHOOK_ARGUMENT)
    .answer(
      async ({ api }, id) => {
        const webhook = (await api.operator.getWebhook(id)).data
        const { data: queued } = await testHook(api, webhook)
        const ended = await waitForOutcome(api, webhook, queued.delivery_id)
        if (api.isServed && ended.status !== 'delivered') process.exitCode = 1
        return { data: ended }
      },
      ({ data }, { api }) =>
        `${formatFields(data)}${api.isServed ? '' : '\nNo service is running: it is queued until one starts.'}`,
    )

  webhooks
    .add('deliveries', 'list the last deliveries of a webhook, newest first')
    .limit('deliveries', 25)
    .argument('<id>', WEBHOOK_ARGUMENT)
    .addOption(new Option('--status <status>', 'filter by status').choices(DELIVERY_STATUSES))
    .addOption(new Option('--event <event>', 'filter by event; not for an inbound route').choices(HISTORY_EVENTS))
    .list(
      async ({ api, options }: ListContext<DeliveryOptions>, id) => {
        const { data: webhook } = await api.operator.getWebhook(id)
        const { status, event, limit } = options
        const pages = listDeliveries(api, webhook, { status, event, per_page: pageSize(limit) })
        return readRows<DeliveryPage>(pages, limit)
      },
      'No deliveries found.',
      DELIVERY_COLUMNS,
    )
}

type Delivery = WebhookDeliverySummary | InboundEmailDelivery
interface DeliveryPage {
  readonly data: readonly Delivery[]
}

/** A webhook has the routes of its account, or those of its inbound route of the same id. */
function testHook(api: CommandApi, { id, account_id: account, route }: OperatorWebhook) {
  const { webhooks, inboundRoutes } = api.as(account)
  return route === null ? webhooks.test(id) : inboundRoutes.test(id)
}

function listDeliveries(
  api: CommandApi,
  { id, account_id: account, route }: OperatorWebhook,
  query: Omit<DeliveryOptions, 'limit'> & { readonly per_page: number },
) {
  const { webhooks, inboundRoutes } = api.as(account)
  return route === null ? webhooks.listDeliveries(id, query) : inboundRoutes.listDeliveries(id, query)
}

type OpenedSecret = Promise<{ readonly data: { readonly secret: string } }>

async function openSecret(api: CommandApi, { account, rotate }: SecretOptions, id: string): OpenedSecret {
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
  return rotate ? webhooks.rotateSecret(id, {}) : webhooks.revealSecret(id)
}

const openInboundSecret = ({ inboundRoutes }: CommandApi, { rotate }: SecretOptions): OpenedSecret =>
  rotate ? inboundRoutes.rotateSecret() : inboundRoutes.revealSecret()

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

const WEBHOOK_COLUMNS: Columns<OperatorWebhook> = {
  ...fields<OperatorWebhook>()('id account route url'),
  EVENTS: ({ events }) => (WEBHOOK_EVENTS.every((event) => events.includes(event)) ? 'all' : events),
  ...fields<OperatorWebhook>()('is_active off_by_failures failure_count'),
  ...fields<OperatorWebhook>()('last_success_at last_failure_at last_failure_reason'),
}

const DELIVERY_COLUMNS: Columns<Delivery> = {
  ...fields<Delivery>()('created_at event status attempts status_code duration_ms'),
  EMAIL: (row) => ('inbound_email_id' in row ? row.inbound_email_id : row.email_id),
  ...fields<Delivery>()('id next_attempt_at error'),
}
