/**
 * @module A service that delivers webhooks, a TLS receiver for them, and its name in DNS, for tests. Records events as
 * delivery does; bypasses nothing else of the service.
 */
import { type EventData, type EventType, record } from '#features/core/events/record.ts'
import type { PayloadFormat } from '#features/webhooks/webhooks/event-names.ts'
import { parseUuid } from '#platform/ids.ts'
import { at } from '#test/support/api.ts'
import { eventually, type TestAppOptions } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { type HttpsReceiver, startHttpsReceiver } from '#test/support/https-receiver.ts'

export const HOOK_HOST = 'hooks.test'

export interface CreatedWebhook {
  readonly id: string
  readonly secret: string
}

/** An email and its first recipient, as rows. */
export interface SentEmail {
  readonly id: string
  readonly emailId: number
  readonly recipientId: number
}

export interface StoredDelivery {
  readonly event: string
  readonly seq: number | null
  readonly status: 'pending' | 'delivered' | 'undeliverable'
  readonly attempts: number
  readonly nextAt: number | null
  readonly statusCode: number | null
  readonly response: string | null
  readonly error: string | null
}

export interface WebhookService extends EmailApi {
  readonly receiver: HttpsReceiver
  /** Creates a webhook of the first account at the receiver. */
  addWebhook(events?: readonly string[], path?: string, format?: PayloadFormat): Promise<CreatedWebhook>
  /** Accepts an email. */
  email(): Promise<SentEmail>
  /** Records an event of an email. */
  tell(email: SentEmail, type: EventType, data?: EventData): Promise<number>
  /** A webhook's deliveries, oldest first. */
  deliveries(webhook: CreatedWebhook): StoredDelivery[]
  /** Resolves with the deliveries once there are this many and none is in progress or due. */
  settled(webhook: CreatedWebhook, count: number): Promise<StoredDelivery[]>
  /** Moves the clock past the time for which an email's first events are held. */
  release(): void
  /**
   * Waits for a condition while webhooks back off: moves the clock in steps whenever no attempt is in progress, nor any
   * message in delivery.
   */
  throughRests<T>(condition: () => T | undefined | false | Promise<T | undefined | false>, stepMs?: number): Promise<T>
}

export async function startWebhookService(options: TestAppOptions = {}): Promise<WebhookService> {
  const receiver = await startHttpsReceiver({ names: [HOOK_HOST] })
  const dns = await startDnsServer({ [HOOK_HOST]: { A: ['127.0.0.1'] } })
  const service = await createEmailApi({
    sendsWebhooks: true,
    ...options,
    settings: { TASSIS_DNS_SERVERS: dns.address, TASSIS_EXTRA_CA_FILE: receiver.caFile, ...options.settings },
  })
  const { app, api, accepted, actor, clock } = service
  const deliveries: WebhookService['deliveries'] = ({ id }) =>
    app.db
      .query<Omit<StoredDelivery, 'status'> & { status: number }, [Uint8Array]>(
        `SELECT event, seq, status, attempts, next_at AS nextAt, status_code AS statusCode, response, error FROM webhook_deliveries
         WHERE webhook_id = (SELECT id FROM webhooks WHERE uuid = ?) ORDER BY id`,
      )
      .all(parseUuid(id) ?? new Uint8Array())
      .map((row) => ({ ...row, status: (['pending', 'delivered', 'undeliverable'] as const)[row.status] ?? 'pending' }))
  return {
    ...service,
    receiver,
    async addWebhook(events = ['sent'], path = '/hook', format = 'tassis') {
      const answer = await api('POST', '/v1/webhooks', { url: receiver.url(HOOK_HOST, path), events, format })
      if (answer.status !== 201) throw new Error(`the webhook was not made: ${JSON.stringify(answer.body)}`)
      return { id: String(at(answer.body, 'data', 'id')), secret: String(at(answer.body, 'data', 'secret')) }
    },
    async email() {
      const { id } = await accepted()
      const row = app.db
        .query<{ emailId: number; recipientId: number }, [Uint8Array]>(
          'SELECT emails.id AS emailId, recipients.id AS recipientId FROM emails JOIN recipients ON email_id = emails.id WHERE uuid = ? LIMIT 1',
        )
        .get(parseUuid(id) ?? new Uint8Array())
      if (!row) throw new Error(`there is no email ${id}`)
      return { id, ...row }
    },
    tell: ({ emailId, recipientId }, type, data) =>
      app.commit.write((tx) =>
        record(tx, {
          accountId: actor.accountId,
          type,
          at: app.eventTime(),
          emailId,
          recipientId,
          ...(data && { data }),
        }),
      ),
    deliveries,
    settled: (webhook, count) =>
      eventually(() => {
        const all = deliveries(webhook)
        const isIdle = all.every(({ nextAt }) => nextAt === null || nextAt > clock.now())
        return service.webhooks?.inFlight === 0 && isIdle && all.length >= count ? all : undefined
      }, 60_000),
    release: () => clock.advance(2000),
    throughRests: (condition, stepMs = 500) =>
      eventually(async () => {
        const value = await condition()
        const isIdle = service.webhooks?.inFlight === 0 && !service.delivery?.scheduler.inFlight
        if (!value && isIdle) clock.advance(stepMs)
        return value
      }, 60_000),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns.close()
      await receiver.close()
    },
  }
}
