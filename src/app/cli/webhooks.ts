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
import { type AccountOption, CommandError, MAX_ROWS, UsageError } from './options.ts'
import { formatFields, printSecret } from './output.ts'

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
  const add = program.group('webhooks', 'list and test webhooks, show or rotate their secrets', {
    id: WEBHOOK_ARGUMENT,
  })
  add('list', 'list the webhooks of all accounts')
    .accountFilter()
    .list(
      async ({ api, query }: ListContext<unknown>) =>
        readRows(api.operator.listWebhooks({ ...query, per_page: 100 }), MAX_ROWS),
      'id account route url events is_active off_by_failures failure_count last_success_at last_failure_at last_failure_reason',
      { events: ({ events }) => (WEBHOOK_EVENTS.every((event) => events.includes(event)) ? 'all' : events) },
      'There is no webhook; POST /v1/webhooks creates one for the account of the API key.',
    )
  add('secret <id>', 'show or replace the signing secret of a webhook; requires --reveal or --rotate', {
    id: `${WEBHOOK_ARGUMENT}, or \`inbound\` for the shared secret of all inbound routes of an account`,
  })
    .account('with `inbound`: the account; required only if there are several')
    .addOption(new Option('--reveal', 'show the secret').conflicts('rotate'))
    .option('--rotate', 'replace the secret; for a day, attempts are signed with the old one too')
    .run(async ({ api, options }: Context<SecretOptions>, id) => {
      if (!options.rotate && !options.reveal)
        throw new UsageError('Use --reveal to show the secret, or --rotate to replace it.')
      const shown = await (id === 'inbound' ? openInboundSecret(api, options) : openSecret(api, options, id))
      const sentence = options.rotate ? ROTATED : 'The audit log records that it was shown.'
      printSecret(options, shown, shown.data.secret, sentence)
    })
  add('test <id>', 'send a test event and show the result; exit code 1 unless the response is a 2xx').answer(
    async ({ api }, id) => {
      const webhook = (await api.operator.getWebhook(id)).data
      const { data: queued } = await routesOf(api, webhook).test(id)
      const ended = await waitForOutcome(api, webhook, queued.delivery_id)
      if (api.isServed && ended.status !== 'delivered') process.exitCode = 1
      return { data: ended }
    },
    ({ data }, { api }) =>
      `${formatFields(data)}${api.isServed ? '' : '\nNo service is running: it is queued until one starts.'}`,
  )
  add('deliveries <id>', 'list the last deliveries of a webhook, newest first')
    .limit('deliveries', 25)
    .choice('--status <status>', 'filter by status', DELIVERY_STATUSES)
    .choice('--event <event>', 'filter by event; not for an inbound route', HISTORY_EVENTS)
    .list(
      async ({ api, options }: ListContext<DeliveryOptions>, id: string) => {
        const { data: webhook } = await api.operator.getWebhook(id)
        const { status, event, limit } = options
        const query = { status, event, per_page: pageSize(limit) }
        return readRows<DeliveryPage>(routesOf(api, webhook).listDeliveries(id, query), limit)
      },
      'created_at event status attempts status_code duration_ms email id next_attempt_at error',
      { email: (row) => ('inbound_email_id' in row ? row.inbound_email_id : row.email_id) },
    )
}

type Delivery = WebhookDeliverySummary | InboundEmailDelivery
interface DeliveryPage {
  readonly data: readonly Delivery[]
}

/** A webhook has the routes of its account, or those of its inbound route of the same id. */
function routesOf(api: CommandApi, { account_id: account, route }: OperatorWebhook) {
  const { webhooks, inboundRoutes } = api.as(account)
  return route === null
    ? { test: webhooks.test, listDeliveries: webhooks.listDeliveries }
    : { test: inboundRoutes.test, listDeliveries: inboundRoutes.listDeliveries }
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
    const { data }: DeliveryPage = await routesOf(api, webhook).listDeliveries(webhook.id, { per_page: 100 })
    const found = data.find((delivery) => delivery.id === id)
    if (!found) throw new CommandError('The history of the webhook no longer has the test event.')
    if (!api.isServed || found.status !== 'pending' || systemClock.monotonicMs() > deadlineMs) return found
    await systemClock.sleep(POLL_INTERVAL_MS)
  }
}
