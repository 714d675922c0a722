/**
 * @module An account with contact lists and forms on them, their pages on a real socket, and access to the contacts of
 * a list.
 */
import { formatUuid, newUuid } from '#platform/ids.ts'
import { at, type TestApiOptions } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, VERIFIED } from '#test/support/email-api.ts'

export const PUBLIC_URL = 'https://mail.tassis.test'

type Json = Record<string, unknown>

export interface FormApi extends EmailApi {
  /** Id of a new contact list of the first account. */
  list(options?: { readonly doubleOptIn?: boolean; readonly name?: string }): string
  /** The record of a new form; by default on a new list. Fails on any response but 201. */
  form(fields?: Json): Promise<FormJson>
  /** Contacts of all lists, oldest first. */
  contacts(): { email: string; status: number; metadata: unknown }[]
  /** Actions about forms in the audit log, oldest first. */
  audited(): { action: string; resource: string; actor: string; metadata: unknown }[]
  /** Removes lists, forms and what posts have stored, for the next test of a shared service. */
  clear(): void
}

export type FormJson = Json & { readonly id: string; readonly slug: string; readonly path: string }

export async function createFormApi(options: TestApiOptions = {}): Promise<FormApi> {
  const service = await createEmailApi({
    ...options,
    settings: { TASSIS_PUBLIC_URL: PUBLIC_URL, TASSIS_FORM_POSTS_PER_MINUTE: '1000', ...options.settings },
  })
  const { app, actor, api, clock } = service
  const list: FormApi['list'] = ({ doubleOptIn = false, name } = {}) => {
    const uuid = newUuid()
    app.db.run(
      `INSERT INTO contact_lists (uuid, account_id, name, double_opt_in, welcome_enabled, welcome_delay_seconds, created_at, updated_at)
       VALUES (?, ?, ?, ?, 0, 0, ?, ?)`,
      [uuid, actor.accountId, name ?? formatUuid(uuid), doubleOptIn ? 1 : 0, clock.now(), clock.now()],
    )
    return formatUuid(uuid)
  }
  return {
    ...service,
    list,
    async form(fields = {}) {
      const answer = await api('POST', '/v1/signup-forms', { list_id: list(), title: 'Our newsletter', ...fields })
      if (answer.status !== 201) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
      const record = at(answer.body, 'data') as Json & { id: string; slug: string }
      return { ...record, path: `/subscribe/${record.slug}` }
    },
    contacts: () =>
      app.db
        .query<{ email: string; status: number; metadata: string | null }, []>(
          'SELECT coalesce(email, address_key) AS email, status, metadata FROM contacts ORDER BY id',
        )
        .all()
        .map((row) => ({ ...row, metadata: row.metadata === null ? null : JSON.parse(row.metadata) })),
    audited: () =>
      app.db
        .query<{ action: string; resource: string; actor: string; metadata: string | null }, []>(
          `SELECT action, resource_id AS resource, actor_type AS actor, metadata FROM audit_logs WHERE action LIKE 'signup_form.%' ORDER BY id`,
        )
        .all()
        .map((row) => ({ ...row, metadata: row.metadata === null ? null : JSON.parse(row.metadata) })),
    clear() {
      for (const table of ['contacts', 'notices', 'form_asks', 'signup_forms', 'contact_lists', 'suppressions'])
        app.db.run(`DELETE FROM ${table}`)
      app.db.run('UPDATE accounts SET paused_at = NULL')
      app.db.run('UPDATE domains SET verified_at = 1 WHERE domain = ?', [VERIFIED])
    },
  }
}

/** Requests a page as a browser does. */
export const ask = (
  { url }: Pick<EmailApi, 'url'>,
  method: string,
  path: string,
  body?: NonNullable<RequestInit['body']>,
  headers: Record<string, string> = {},
): Promise<Response> =>
  fetch(`${url}${path}`, { method, headers, redirect: 'manual', ...(body !== undefined && { body }) })

/** Sends the form of a page. */
export const submit = (
  service: Pick<EmailApi, 'url'>,
  path: string,
  fields: Record<string, string>,
  headers?: Record<string, string>,
): Promise<Response> => ask(service, 'POST', path, new URLSearchParams(fields), headers)

/** Posts JSON as an account's own front end does. */
export const submitJson = (
  service: Pick<EmailApi, 'url'>,
  path: string,
  fields: unknown,
  headers: Record<string, string> = {},
): Promise<Response> =>
  ask(service, 'POST', path, JSON.stringify(fields), { 'content-type': 'application/json', ...headers })
