/**
 * @module An account with contact lists whose confirmations and welcomes are sent, and access to waiting mail, sent
 * mail and the confirmation pages.
 */
import { type SubscribeInput, subscribe } from '#features/audience/contact-lists/subscribe.ts'
import { unsubscribe } from '#features/sending/unsubscribe/unsubscribe.ts'
import { getList } from '#features/setup/contact-store/lists.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { type ApiOptions, at } from '#test/support/api.ts'
import { eventually, type TestAppOptions } from '#test/support/app.ts'
import type { EmailApi } from '#test/support/email-api.ts'
import { createListApi, type ListApi } from './fixture.ts'

export const PUBLIC_URL = 'https://mail.tassis.test'
export const ADDRESS = 'bob@receiver.test'

type Json = Record<string, unknown>

/** An accepted email, oldest first. */
export interface SentMail {
  readonly from: string
  readonly to: string
  readonly subject: string
}

export interface ConfirmingService extends ListApi {
  /** Creates a list and returns its id; double opt-in unless `body` says otherwise. */
  list(body?: Json, options?: ApiOptions): Promise<string>
  contact(listId: string, email?: string): Promise<Json>
  /** Waits until nothing is due. */
  drained(): Promise<void>
  sent(): SentMail[]
  /** Waits for the nth confirmation to an address (default the first) and returns the path of its link. */
  link(email?: string, nth?: number): Promise<string>
  /** Metadata of the audit rows with an action, oldest first. */
  audited(action: string): Json[]
}

export async function createConfirmingService(options: TestAppOptions = {}): Promise<ConfirmingService> {
  const service = await createListApi({
    runsTasks: true,
    ...options,
    settings: { TASSIS_PUBLIC_URL: PUBLIC_URL, ...options.settings },
  })
  const { app, api, clock } = service
  const confirmations = (email: string) =>
    app.db
      .query<{ uuid: Uint8Array }, [string]>(
        `SELECT uuid FROM emails JOIN recipients ON email_id = emails.id WHERE address = ? AND subject LIKE 'Please confirm%' ORDER BY emails.id`,
      )
      .all(email)
  return {
    ...service,
    list: (body = {}, given = {}) => service.newList({ double_opt_in: true, ...body }, given),
    async contact(listId, email = ADDRESS) {
      const answer = await api('GET', `/v1/contact-lists/${listId}/contacts/${encodeURIComponent(email)}`)
      return at(answer.body, 'data') as Json
    },
    async drained() {
      await eventually(
        () =>
          app.db.query<{ n: number }, [number]>('SELECT COUNT(*) AS n FROM notices WHERE due_at <= ?').get(clock.now())
            ?.n === 0,
      )
      await app.commit.barrier()
    },
    sent: () =>
      app.db
        .query<SentMail, []>(
          'SELECT from_address AS "from", address AS "to", subject FROM emails JOIN recipients ON email_id = emails.id ORDER BY emails.id',
        )
        .all(),
    async link(email = ADDRESS, nth = 1) {
      const { uuid } = await eventually(() => confirmations(email)[nth - 1])
      const detail = await service.detail(formatUuid(uuid))
      const path = new RegExp(`^${PUBLIC_URL}(/confirm/[\\w-]+)$`, 'm').exec(String(detail['text_body']))?.[1]
      if (path === undefined) throw new Error('the confirmation has no link')
      return path
    },
    audited: (action) =>
      app.db
        .query<{ metadata: string | null }, [string]>('SELECT metadata FROM audit_logs WHERE action = ? ORDER BY id')
        .all(action)
        .map(({ metadata }) => JSON.parse(metadata ?? '{}') as Json),
  }
}

export interface Page {
  readonly status: number
  /** Text of the first heading. */
  readonly heading: string | undefined
  /** Labels of its buttons. */
  readonly buttons: readonly string[]
}

/** Requests a page as a browser does. */
export async function ask(service: Pick<EmailApi, 'url'>, method: string, path: string): Promise<Page> {
  const response = await fetch(`${service.url}${path}`, { method, redirect: 'manual' })
  const text = await response.text()
  return {
    status: response.status,
    heading: /<h1>([^<]+)<\/h1>/.exec(text)?.[1],
    buttons: [...text.matchAll(/<button>([^<]+)<\/button>/g)].map(([, label]) => label ?? ''),
  }
}

/** Subscribes an address as a form does. */
export const sign = (service: EmailApi, list: string, input: Partial<SubscribeInput> = {}) =>
  subscribe(service.app, {
    list: getList(service.app.db, service.actor.accountId, list),
    email: ADDRESS,
    ...input,
  })

/** Unsubscribes an address from a list as a mail program does: by the token of an email of the list. */
export async function leave(service: ListApi, list: string, address = ADDRESS): Promise<void> {
  const { app, actor } = service
  const accountUuid = parseUuid(actor.accountUuid) ?? new Uint8Array()
  const mail = { emailId: 0, recipientId: 0, address, senderDomain: 'sender.test' }
  await unsubscribe(app, { ...mail, accountUuid, streamId: 0, listId: service.rowOf(list) }, 'one-click')
}
