/** @module Webhooks over HTTP for tests of the resource: sends nothing, and records events like the features do. */
import { type EventData, type EventType, record } from '#features/core/events/record.ts'
import { WebhookDispatcher } from '#features/webhooks/webhooks/deliver/dispatcher.ts'
import { parseUuid } from '#platform/ids.ts'
import { at } from '#test/support/api.ts'
import type { TestAppOptions } from '#test/support/app.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import type { CreatedWebhook, WebhookService } from '#test/support/webhooks.ts'

export type Json = Record<string, unknown>

export const HOOK = { url: 'https://127.0.0.1/hook', events: ['sent', 'bounced'] }

export interface WebhookApi extends EmailApi {
  /** Creates a webhook and returns `data` of the 201. */
  addWebhook(request?: Json): Promise<Json & { id: string; secret: string }>
  /** `data` of the webhook. */
  webhook(id: string): Promise<Json>
  put(id: string, request?: Json): Promise<Json>
  /** Records events of an email, or of none; returns their positions. */
  tell(
    types: readonly EventType[],
    given?: { emailId?: number; recipientId?: number; data?: EventData },
  ): Promise<number[]>
  /** Rows of an email. */
  rowsOf(id: string): { emailId: number; recipientIds: number[] }
  /** `data` of the history, newest first. */
  deliveries(id: string, query?: string): Promise<Json[]>
  /** Row id of a webhook. */
  rowId(id: string): number
  /** Stores a finished delivery, as the dispatcher does. */
  finish(id: string, delivery: { event: string; status: 1 | 2; seq?: number | null; createdAt?: number }): void
  /** `action` and `resource_id` of the audit log's newest rows, oldest first. */
  audited(count: number): Promise<[unknown, unknown][]>
}

export async function createWebhookApi(options: TestAppOptions = {}): Promise<WebhookApi> {
  const service = await createEmailApi(options)
  const { app, api, actor, clock } = service
  const data = async (method: string, path: string, body?: unknown): Promise<Json> => {
    const answer = await api(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
    return at(answer.body, 'data') as Json
  }
  const row = <T>(query: string, id: string): T => {
    const found = app.db.query<T, [Uint8Array]>(query).get(parseUuid(id) ?? new Uint8Array())
    if (!found) throw new Error(`there is no ${id}`)
    return found
  }
  const rowId = (id: string): number => row<{ id: number }>('SELECT id FROM webhooks WHERE uuid = ?', id).id
  let finished = 0
  return {
    ...service,
    addWebhook: (request = {}) =>
      data('POST', '/v1/webhooks', { ...HOOK, ...request }) as Promise<Json & { id: string; secret: string }>,
    webhook: (id) => data('GET', `/v1/webhooks/${id}`),
    put: (id, request = {}) => data('PUT', `/v1/webhooks/${id}`, { ...HOOK, is_active: true, ...request }),
    tell: (types, given = {}) =>
      app.commit.write((tx) =>
        types.map((type) => record(tx, { accountId: actor.accountId, type, at: app.eventTime(), ...given })),
      ),
    rowsOf(id) {
      const { emailId } = row<{ emailId: number }>('SELECT id AS emailId FROM emails WHERE uuid = ?', id)
      const recipientIds = app.db
        .query<{ id: number }, [number]>('SELECT id FROM recipients WHERE email_id = ? ORDER BY id')
        .all(emailId)
        .map((recipient) => recipient.id)
      return { emailId, recipientIds }
    },
    deliveries: async (id, query = '') =>
      (await data('GET', `/v1/webhooks/${id}/deliveries${query}`)) as unknown as Json[],
    rowId,
    finish(id, { event, status, seq = null, createdAt = clock.now() }) {
      const uuid = new Uint8Array(16)
      new DataView(uuid.buffer).setUint32(0, ++finished)
      app.db.run(
        `INSERT INTO webhook_deliveries (uuid, webhook_id, seq, event, status, attempts, attempted_at, duration_ms, status_code, response, error, created_at)
         VALUES (?, ?, ?, ?, ?, 1, ?, 12, ?, 'body', ?, ?)`,
        [
          uuid,
          rowId(id),
          seq,
          event,
          status,
          createdAt,
          status === 1 ? 200 : 404,
          status === 1 ? null : 'The response status was 404.',
          createdAt,
        ],
      )
    },
    async audited(count) {
      const rows = at((await api('GET', `/v1/audit-logs?per_page=${count}`)).body, 'data') as Json[]
      return rows.map((entry): [unknown, unknown] => [entry['action'], entry['resource_id']]).reverse()
    },
  }
}

/** `data` of a webhook. */
export const getRecord = async ({ api }: WebhookService, { id }: CreatedWebhook): Promise<Json> =>
  at((await api('GET', `/v1/webhooks/${id}`)).body, 'data') as Json

/** Puts a webhook as it is, or with changes, active. */
export async function putWebhook(service: WebhookService, webhook: CreatedWebhook, changes: Json = {}) {
  const { url, events } = await getRecord(service, webhook)
  return await service.api('PUT', `/v1/webhooks/${webhook.id}`, { url, events, is_active: true, ...changes })
}

/**
 * Records events of new emails, each with its own recipient, and moves the clock past the two seconds for which they
 * are held.
 */
export async function recordMany(service: WebhookService, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await service.tell(await service.email(), 'sent')
  service.release()
}

/** Another dispatcher, as after a restart, until it is disposed of. */
export function startDispatcher(app: WebhookService['app']): WebhookDispatcher & AsyncDisposable {
  const webhooks = new WebhookDispatcher(app)
  webhooks.start()
  return Object.assign(webhooks, { [Symbol.asyncDispose]: () => webhooks.stop(0) })
}
