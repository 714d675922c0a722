/** @module An account with mail to unsubscribe from, its pages on a real socket, and access to the resulting rows. */

import type { App } from '#features/core/app/app.ts'
import { createUnsubscribeHeaders } from '#features/sending/unsubscribe/headers.ts'
import { createStream } from '#features/setup/streams/streams.ts'
import { parseUuid } from '#platform/ids.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'

export const ADDRESS = 'bob@receiver.test'

export interface Unsubscribable extends EmailApi {
  /**
   * Sends an email with `transactional: false`, of a contact list if given, and returns the path of its unsubscribe
   * link.
   */
  link(request?: Record<string, unknown>, listId?: number): Promise<string>
  /** Suppressions, oldest first. */
  suppressions(): Row[]
  /** Events of type `unsubscribed`, oldest first. */
  events(): { emailId: number; recipient: string | null; data: unknown }[]
  /** Actions in the audit log about suppressions. */
  auditRows(): { actorType: string; action: string; metadata: unknown }[]
}

export interface Row {
  readonly address: string
  readonly covers: number
  /** Slug; null: every stream. */
  readonly stream: string | null
  readonly reason: string
  readonly sourceEmailId: number | null
}

/** The path of the unsubscribe link of the first recipient of an email. */
export function findUnsubscribePath(app: App, id: string): string {
  const row = app.db
    .query<
      { emailId: number; emailUuid: Uint8Array; recipientId: number; address: string; from: string },
      [Uint8Array]
    >(
      `SELECT emails.id AS emailId, uuid AS emailUuid, recipients.id AS recipientId, address, from_address AS "from"
       FROM emails JOIN recipients ON email_id = emails.id WHERE uuid = ?`,
    )
    .get(parseUuid(id) ?? new Uint8Array())
  if (!row) throw new Error('the email was not stored')
  const [field] = createUnsubscribeHeaders(app, { ...row, returnPathDomain: 'send.sender.test' })
  const url = /<(https:[^>]+)>/.exec(field?.[1] ?? '')?.[1]
  if (url === undefined) throw new Error('there is no https URL')
  return new URL(url).pathname
}

/** Has a stream `news` named `Weekly news`. */
export async function createUnsubscribable(): Promise<Unsubscribable> {
  const service = await createEmailApi({ settings: { TASSIS_PUBLIC_URL: 'https://mail.tassis.test' } })
  const { app, actor } = service
  await createStream(app, actor, { slug: 'news', name: 'Weekly news' })
  return {
    ...service,
    async link(request = {}, listId) {
      const { id } = await service.accepted({ to: ADDRESS, transactional: false, ...request })
      // Broadcasts and welcome emails are stored with their list in the same way.
      if (listId !== undefined)
        app.db.run('UPDATE emails SET list_id = ? WHERE uuid = ?', [listId, parseUuid(id) ?? new Uint8Array()])
      return findUnsubscribePath(app, id)
    },
    suppressions: () =>
      app.db
        .query<Row, []>(
          `SELECT address, covers, slug AS stream, reason, source_email_id AS sourceEmailId FROM suppressions
           LEFT JOIN streams ON streams.id = stream_id ORDER BY suppressions.id`,
        )
        .all(),
    events: () =>
      app.db
        .query<{ emailId: number; recipient: string | null; data: string }, []>(
          `SELECT events.email_id AS emailId, address AS recipient, data FROM events LEFT JOIN recipients ON recipients.id = recipient_id
           WHERE type = 12 ORDER BY seq`,
        )
        .all()
        .map((row) => ({ ...row, data: JSON.parse(row.data) })),
    auditRows: () =>
      app.db
        .query<{ actorType: string; action: string; metadata: string }, []>(
          "SELECT actor_type AS actorType, action, metadata FROM audit_logs WHERE action LIKE 'suppression.%' ORDER BY id",
        )
        .all()
        .map((row) => ({ ...row, metadata: JSON.parse(row.metadata) })),
  }
}

export type RequestBody = NonNullable<RequestInit['body']>

/** Requests a page like a mail program or a browser; a body of undefined has no length and no type. */
export const requestPage = (
  service: Pick<EmailApi, 'url'>,
  method: string,
  path: string,
  body?: RequestBody,
  headers: Record<string, string> = {},
): Promise<Response> =>
  fetch(`${service.url}${path}`, { method, headers, redirect: 'manual', ...(body !== undefined && { body }) })

/** Posts what a button of the page sends. */
export const pressButton = (service: Pick<EmailApi, 'url'>, path: string, action: string): Promise<Response> =>
  requestPage(service, 'POST', path, new URLSearchParams({ action }))
