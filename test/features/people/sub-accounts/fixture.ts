/** @module An account on plan `pro` whose quota a test chooses, with requests about its sub-accounts. */
import type { Actor } from '#features/core/app/app.ts'
import { parseUuid } from '#platform/ids.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { createTestAccount, type TestAppOptions } from '#test/support/app.ts'
import { createEmailApi, EMAIL, type EmailApi } from '#test/support/email-api.ts'

export const PASSWORD = 'four words that fit'

export interface Family extends EmailApi {
  readonly parent: Actor
  readonly parentKey: string
  /** Sends a request as the parent. */
  ask(method: string, path: string, body?: unknown): Promise<ApiResponse>
  /** Creates a sub-account with `request` over a valid one; returns its record. */
  made(request?: Record<string, unknown>): Promise<Record<string, unknown> & { id: string }>
  /** Creates a sub-account that can send from `{name}.test`. */
  sender(name: string, request?: Record<string, unknown>): Promise<Sender>
  /** Sends as the parent, from a domain of its own. */
  sendAsParent(request?: Record<string, unknown>): Promise<ApiResponse>
}

export interface Sender {
  readonly id: string
  readonly key: string
  readonly actor: Actor
  send(request?: Record<string, unknown>): Promise<ApiResponse>
}

let made = 0

export const subAccount = (request: Record<string, unknown> = {}) => {
  const n = ++made
  return { name: `Shop ${n}`, email: `owner${n}@shop.test`, password: PASSWORD, ...request }
}

export async function createFamily(options: TestAppOptions & { readonly quota?: number } = {}): Promise<Family> {
  const { quota = 1000, ...rest } = options
  const service = await createEmailApi({
    ...rest,
    settings: {
      ...options.settings,
      TASSIS_PLANS: [`pro.monthly_quota=${quota}`, options.settings?.['TASSIS_PLANS']].join(','),
    },
  })
  const { app, api } = service
  const parent = await createTestAccount(app, 'pro')
  const parentKey = await service.newKey([], parent)
  await service.addDomain(parent, 'parent.test')
  const ask: Family['ask'] = (method, path, body) => api(method, path, body, { key: parentKey })
  const madeOne: Family['made'] = async (request) => {
    const answer = await ask('POST', '/v1/accounts', subAccount(request))
    if (answer.status !== 201) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
    return at(answer.body, 'data') as Record<string, unknown> & { id: string }
  }
  return {
    ...service,
    parent,
    parentKey,
    ask,
    made: madeOne,
    async sender(name, request) {
      const { id } = await madeOne({ name, ...request })
      const key = String(at((await ask('POST', `/v1/accounts/${id}/api-keys`, { name: 'app' })).body, 'data', 'key'))
      const row = app.db
        .query<{ id: number }, [Uint8Array]>('SELECT id FROM accounts WHERE uuid = ?')
        .get(parseUuid(id) ?? new Uint8Array())
      const actor: Actor = { ...parent, accountId: row?.id ?? 0, accountUuid: id }
      await service.addDomain(actor, `${name}.test`)
      const send: Sender['send'] = (given) =>
        api('POST', '/v1/emails', { ...EMAIL, from: `ada@${name}.test`, ...given }, { key })
      return { id, key, actor, send }
    },
    sendAsParent: (given) => ask('POST', '/v1/emails', { ...EMAIL, from: 'ada@parent.test', ...given }),
  }
}
