/** @module An account with contact lists, for tests, and access to what is stored of its contacts. */
import { expect } from 'bun:test'
import { toContactStatus } from '#features/setup/contact-store/status.ts'
import { type ApiOptions, type ApiResponse, at } from '#test/support/api.ts'
import type { TestAppOptions } from '#test/support/app.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'

export interface ListApi extends EmailApi {
  /** Creates a list; returns its id. */
  newList(fields?: Record<string, unknown>, options?: ApiOptions): Promise<string>
  /** Adds one contact with these fields, or several with `contacts`. */
  add(list: string, body: Record<string, unknown>, options?: ApiOptions): Promise<ApiResponse>
  /** The status of each contact of a list, by address. */
  statuses(list: string): Promise<Record<string, string>>
  /** Row id of a list. */
  rowOf(list: string): number
  /** Kinds and addresses of waiting mail, in the order in which it was scheduled. */
  waiting(): { kind: string; email: string | null }[]
}

let made = 0

/** With a verified domain, and an unverified one. */
export async function createListApi(options: TestAppOptions = {}): Promise<ListApi> {
  const service = await createEmailApi(options)
  const { api, app } = service
  return {
    ...service,
    async newList(fields = {}, given = {}) {
      const answer = await api('POST', '/v1/contact-lists', { name: `List ${++made}`, ...fields }, given)
      if (answer.status !== 201) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
      return String(at(answer.body, 'data', 'id'))
    },
    add: (list, body, given) => api('POST', `/v1/contact-lists/${list}/contacts`, body, given),
    async statuses(list) {
      const answer = await api('GET', `/v1/contact-lists/${list}/contacts?per_page=100`)
      const rows = at(answer.body, 'data') as { email: string; status: string }[]
      return Object.fromEntries(rows.toReversed().map(({ email, status }) => [email, status]))
    },
    rowOf(list) {
      const row = app.db
        .query<{ id: number }, [Uint8Array]>('SELECT id FROM contact_lists WHERE uuid = ?')
        .get(Uint8Array.fromHex(list.replaceAll('-', '')))
      if (!row) throw new Error(`no list ${list}`)
      return row.id
    },
    waiting: () =>
      app.db
        .query<{ kind: string; email: string | null }, []>(
          'SELECT kind, address_key AS email FROM notices LEFT JOIN contacts ON contacts.id = topic ORDER BY notices.id',
        )
        .all(),
  }
}

/** Asserts that a list's `contact_count`, and the total of each status, match its contacts. */
export async function expectCounts(service: ListApi, list: string, counts: Record<string, number>): Promise<void> {
  const { api, app } = service
  const rows = app.db
    .query<{ status: number; n: number }, [number]>(
      'SELECT status, count(*) AS n FROM contacts WHERE list_id = ? GROUP BY status',
    )
    .all(service.rowOf(list))
  expect(Object.fromEntries(rows.map(({ status, n }) => [toContactStatus(status), n]))).toEqual(counts)
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0)
  expect(at((await api('GET', `/v1/contact-lists/${list}`)).body, 'data', 'contact_count')).toBe(total)
  for (const status of ['active', 'pending', 'unsubscribed', 'bounced', 'complained']) {
    const page = await api('GET', `/v1/contact-lists/${list}/contacts?status=${status}&per_page=1`)
    expect(at(page.body, 'pagination', 'total')).toBe(counts[status] ?? 0)
  }
}
