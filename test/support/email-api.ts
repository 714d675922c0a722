/**
 * @module The emails API over HTTP for tests: an account with a verified and an unverified domain, valid requests that
 * a test can modify, and counts of everything stored. Writes only through the API, apart from verifying the domain.
 */
import { afterAll, beforeAll, beforeEach, expect } from 'bun:test'
import { join } from 'node:path'
import type { Actor } from '#features/core/app/app.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { type ApiOptions, type ApiResponse, at, createTestApi, type TestApi, type TestApiOptions } from './api.ts'

export const VERIFIED = 'sender.test'
export const UNVERIFIED = 'sandbox.test'
/** Start time of tests with their own clock. */
export const NOW = Date.UTC(2026, 2, 15, 12, 30)
export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

type Json = Record<string, unknown>

export interface EmailApi extends TestApi {
  readonly clock: ManualClock
  /** Sends a small valid email with `request` merged over it; undefined removes a field. */
  send(request?: Json, options?: ApiOptions): Promise<ApiResponse>
  /** `data` of the 202; fails on any other response. */
  accepted(request?: Json, options?: ApiOptions): Promise<Json & { id: string }>
  /** `data` of the detail. */
  detail(id: unknown, options?: ApiOptions): Promise<Json>
  /** Posts a raw body. */
  raw(path: string, body: RequestInit['body'], headers?: Readonly<Record<string, string>>): Promise<ApiResponse>
  /** Counts of rows of every table but the log of requests, blobs, and recipients counted in the quota. */
  stored(): Record<string, number>
  /** Recipients counted in an account's quota, in all months. */
  used(of?: Actor): number
  /** Gives an account a verified domain. */
  addDomain(of: Actor, name?: string): Promise<void>
}

export const EMAIL = { from: `ada@${VERIFIED}`, to: 'bob@receiver.test', subject: 'Hello', text_body: 'Hello, Bob.' }

export async function createEmailApi(options: TestApiOptions = {}): Promise<EmailApi> {
  const clock = new ManualClock(NOW)
  const service = await createTestApi({ clock, ...options })
  const { app, api, actor, key } = service
  const addDomain: EmailApi['addDomain'] = async (of, name = VERIFIED) => {
    const { domain } = await createDomain(app, of, name)
    app.db.run('UPDATE domains SET verified_at = 1 WHERE id = ?', [domain.id])
  }
  await Promise.all([addDomain(actor), createDomain(app, actor, UNVERIFIED)])
  const count = (db: typeof app.db, table: string): number =>
    db.query<{ n: number }, []>(`SELECT COUNT(*) AS n FROM "${table}"`).get()?.n ?? 0
  const send: EmailApi['send'] = (request = {}, given = {}) =>
    api('POST', '/v1/emails', { ...EMAIL, ...request }, given)
  return {
    ...service,
    clock,
    send,
    addDomain,
    async accepted(request, given) {
      const answer = await send(request, given)
      if (answer.status !== 202) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
      return at(answer.body, 'data') as Json & { id: string }
    },
    async detail(id, given) {
      const answer = await api('GET', `/v1/emails/${String(id)}`, undefined, given)
      if (answer.status !== 200) throw new Error(`no detail: ${JSON.stringify(answer.body)}`)
      return at(answer.body, 'data') as Json
    },
    async raw(path, body, headers = {}) {
      const response = await fetch(`${service.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        body: body ?? null,
      })
      const text = await response.text()
      return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
    },
    stored() {
      const tables = app.db
        .query<{ name: string }, []>(
          "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'request_log%'",
        )
        .all()
      return {
        ...Object.fromEntries(tables.map(({ name }) => [name, count(app.db, name)])),
        contentParts: app.content.databases().reduce((sum, db) => sum + count(db, 'parts'), 0),
        recipientsUsed:
          app.db.query<{ n: number }, []>('SELECT coalesce(SUM(recipients), 0) AS n FROM usage').get()?.n ?? 0,
      }
    },
    used: (of = actor) =>
      app.db
        .query<{ n: number }, [number]>('SELECT coalesce(SUM(recipients), 0) AS n FROM usage WHERE account_id = ?')
        .get(of.accountId)?.n ?? 0,
  }
}

/**
 * One service for the tests of a file. Each test finds the rows that `create` left, and its time; after a test that moved
 * the clock, the service is made anew. What the service remembers besides its rows stays, such as rates, pauses, parents
 * of accounts and content: a test that changes these, or fills the disk, creates a service of its own.
 */
export function shareEmailApi<S extends EmailApi>(create: () => Promise<S>): S {
  let service: S | undefined
  let startedAt = 0
  const start = async (): Promise<void> => {
    service = await create()
    startedAt = service.clock.now()
    await service.app.commit.barrier()
    service.app.db.run(`VACUUM INTO '${join(service.dataDir, 'first-rows.db')}'`)
    service.app.db.run(`ATTACH '${join(service.dataDir, 'first-rows.db')}' AS first`)
  }
  beforeAll(start)
  beforeEach(async () => {
    await service?.app.commit.barrier()
    if (service?.clock.now() === startedAt && service.clock.monotonicMs() === 0) restoreRows(service)
    else {
      await service?.[Symbol.asyncDispose]()
      await start()
    }
  })
  afterAll(async () => service?.[Symbol.asyncDispose]())
  return new Proxy({} as S, { get: (_, name) => service && Reflect.get(service, name) })
}

/** Gives every table the rows of the attached copy; row ids begin anew, too. */
function restoreRows({ app: { db } }: EmailApi): void {
  const tables = db
    .query<{ name: string }, []>("SELECT name FROM pragma_table_list WHERE schema = 'first' AND type = 'table'")
    .all()
    .map(({ name }) => name)
    .filter((name) => name !== 'sqlite_schema')
  // Triggers on other tables write it.
  const inOrder = [...tables.filter((name) => name !== 'stored_amounts'), 'stored_amounts']
  db.run('PRAGMA foreign_keys = OFF')
  db.transaction(() => {
    for (const name of ['email_search', 'mailbox_search']) db.run(`DELETE FROM main.${name}`)
    for (const name of inOrder) {
      db.run(`DELETE FROM main."${name}"`)
      db.run(`INSERT INTO main."${name}" SELECT * FROM first."${name}"`)
    }
  })()
  db.run('PRAGMA foreign_keys = ON')
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'validation_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found',
  409: 'conflict',
  410: 'invalid_request',
  413: 'invalid_request',
  415: 'invalid_request',
  422: 'validation_error',
  429: 'rate_limit_exceeded',
  503: 'server_error',
  507: 'server_error',
}

/** Expects the contract's complete error body, with exactly `fields` among its details. */
export function expectError(answer: ApiResponse, status: number, code: string, ...fields: readonly string[]): void {
  const message = at(answer.body, 'message')
  const type = TYPES[status]
  const retryAfter = answer.headers.get('retry-after')
  expect({ status: answer.status, body: answer.body }).toEqual({
    status,
    body: {
      error: { code, message, type, docs_url: null },
      code,
      message,
      type,
      request_id: answer.headers.get('x-request-id'),
      ...(fields.length > 0 && { details: fields.map((field) => ({ field, message: expect.any(String) })) }),
      ...((status === 429 || status === 503) && { retry_after: Number(retryAfter) }),
    },
  })
  expect(String(message).trim().length).toBeGreaterThan(10)
  // No stack, no SQL, no path.
  expect(JSON.stringify(answer.body)).not.toMatch(/\n\s+at |SQLITE|SELECT |INSERT |\/src\/|\.ts:/)
  if (status === 429 || status === 503) expect(retryAfter).toMatch(/^[1-9]\d*$/)
}
