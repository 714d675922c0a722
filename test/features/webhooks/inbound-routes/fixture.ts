/**
 * @module Inbound routes over HTTP for tests, with a receiver of their webhooks. Stores mail as its processing would,
 * without SMTP: finds the route of the recipient, and writes the row and event of the message.
 */
import { storeInbound } from '#features/receiving/inbound/process/store.ts'
import { findRoute } from '#features/receiving/route-rules/rows.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { at } from '#test/support/api.ts'
import type { TestAppOptions } from '#test/support/app.ts'
import { createTestReceived } from '#test/support/inbound.ts'
import { AUTHENTICATION } from '#test/support/mailboxes.ts'
import { HOOK_HOST, startWebhookService, type WebhookService } from '#test/support/webhooks.ts'

export type Json = Record<string, unknown>

export const INBOUND = 'inbound.test'

/** A message that arrived: its public id, and the position of its event. */
export interface Arrived {
  readonly id: string
  readonly seq: number | null
}

export interface RouteService extends WebhookService {
  /** Public id of the account's inbound domain. */
  readonly domainId: string
  /** Creates a route of the domain, to the receiver by default; `data` of the 201. */
  addRoute(request?: Json): Promise<Json & { id: string }>
  /** `data` of the route. */
  route(id: string): Promise<Json>
  /** `data` of the changed route. */
  put(id: string, change: Json): Promise<Json>
  /** Stores a message for a local part of the domain. */
  arrive(localPart: string, message?: { subject?: string; text?: string }): Promise<Arrived>
  /** `data` of the history, newest first. */
  history(id: string, query?: string): Promise<Json[]>
  /** Status, time and error of an inbound email, as stored. */
  inboundRow(id: string): { status: number; deliveredAt: number | null; error: string | null }
}

export async function startRouteService(options: TestAppOptions = {}): Promise<RouteService> {
  const service = await startWebhookService(options)
  const { app, api, actor, receiver } = service
  const data = async (method: string, path: string, body?: unknown): Promise<Json> => {
    const answer = await api(method, path, body)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
    return at(answer.body, 'data') as Json
  }
  const domainId = String((await data('POST', '/v1/domains', { domain: INBOUND }))['id'])
  const domain = app.db
    .query<{ id: number }, [Uint8Array]>(
      'UPDATE domains SET verified_at = 1, inbound_enabled = 1 WHERE uuid = ? RETURNING id',
    )
    .get(parseUuid(domainId) ?? new Uint8Array())
  if (!domain) throw new Error('there is no domain')
  const arrive: RouteService['arrive'] = async (localPart, { subject = 'Hello', text = 'Hello, team.' } = {}) => {
    const address = `${localPart}@${INBOUND}`
    const received = await createTestReceived(app, {
      text,
      raw: `Subject: ${subject}\r\n\r\n${text}`,
      message: { subject, to: address },
      authentication: AUTHENTICATION,
    })
    const row = await app.commit.write((tx) => {
      const route = findRoute(tx.db, domain.id, localPart)
      storeInbound(
        app,
        tx,
        { accountId: actor.accountId, domainId: domain.id, routeId: route?.id, rcptTo: [address] },
        received,
      )
      return tx.db
        .query<{ uuid: Uint8Array; seq: number | null }, []>(
          'SELECT uuid, event_seq AS seq FROM inbound_emails ORDER BY id DESC LIMIT 1',
        )
        .get()
    })
    if (!row) throw new Error('nothing was stored')
    return { id: formatUuid(row.uuid), seq: row.seq }
  }
  return {
    ...service,
    domainId,
    addRoute: (request = {}) =>
      data('POST', '/v1/inbound-routes', {
        domain_id: domainId,
        pattern: 'support',
        match_type: 'exact',
        webhook_url: receiver.url(HOOK_HOST, '/route'),
        ...request,
      }) as Promise<Json & { id: string }>,
    route: (id) => data('GET', `/v1/inbound-routes/${id}`),
    put: (id, change) => data('PUT', `/v1/inbound-routes/${id}`, change),
    arrive,
    history: async (id, query = '') =>
      (await data('GET', `/v1/inbound-routes/${id}/deliveries${query}`)) as unknown as Json[],
    inboundRow(id) {
      const row = app.db
        .query<{ status: number; deliveredAt: number | null; error: string | null }, [Uint8Array]>(
          'SELECT status, webhook_delivered_at AS deliveredAt, error_message AS error FROM inbound_emails WHERE uuid = ?',
        )
        .get(parseUuid(id) ?? new Uint8Array())
      if (!row) throw new Error(`there is no inbound email ${id}`)
      return row
    },
  }
}
