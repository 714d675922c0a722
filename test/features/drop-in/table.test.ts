/**
 * @module docs/drop-in.md held against the service, the clients of npm and the tests: no route and no request of a client
 * is missing, what is named as absent is a 404 that says so, and every named test exists.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { ServerClient } from 'postmark'
import { Resend } from 'resend'
import { listOpenedRoutes } from '#test/contract/routes.ts'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { createMailgun } from './mailgun/fixture.ts'

const ROOT = join(import.meta.dir, '../../..')
const STATES = ['done', 'differs', 'absent', 'ours']
const ROUTE = /`([A-Z]+) (\/[^`\s]*)`/g
const NAMED_TEST = /`([\w/-]+)`: (.+?)(?=, `[\w/-]+`: |$)/g

type Provider = 'Resend' | 'Postmark' | 'Mailgun'

interface Row {
  readonly provider: string
  readonly text: string
  readonly routes: readonly (readonly [method: string, path: string])[]
  readonly state: string
  readonly tests: readonly (readonly [file: string, title: string])[]
}

function readRows(page: string): Row[] {
  const rows: Row[] = []
  let provider = ''
  for (const text of page.split('\n')) {
    provider = /^## (\w+)$/.exec(text)?.[1] ?? provider
    const cells = text.split(' | ')
    if (provider === '' || cells.length === 1 || text.startsWith('| Route ')) continue
    const [route = '', , state = '', , named = ''] = text
      .replace(/^\| ?(.*) \|$/, '$1')
      .split('|')
      .map((cell) => cell.trim())
    rows.push({
      provider,
      text,
      state,
      routes: [...route.matchAll(ROUTE)].map(([, method = '', path = '']) => [method, path] as const),
      tests: [...named.matchAll(NAMED_TEST)].map(([, file = '', title = '']) => [file, title] as const),
    })
  }
  return rows
}

const rows = readRows(await Bun.file(join(ROOT, 'docs/drop-in.md')).text())
const rowsOf = (provider: Provider) => rows.filter((row) => row.provider === provider)
const absentRoutesOf = (provider: Provider) =>
  rowsOf(provider).flatMap((row) => (row.state === 'absent' ? row.routes : []))

let service: EmailApi
beforeAll(async () => {
  service = await createEmailApi()
})
afterAll(() => service[Symbol.asyncDispose]())

test('every row has a state and a test', () => {
  expect(rows.length).toBeGreaterThan(50)
  expect(rows.filter(({ state, tests }) => !STATES.includes(state) || tests.length === 0)).toEqual([])
})

/** The titles of a test file with those of the groups around them. Relies on the indentation of formatted code. */
function readTitles(source: string): string[] {
  const opener =
    /^( *)(?:(?:describe|test)(?:\.\w+(?:<[^\n]*>)?(?:\([^\n]*\)|\(\[)?)?|(?:\](?: as const)?)?\))\(\s*(['"`])((?:\\.|(?!\2).)*)\2,/gm
  const groups: { indent: number; title: string }[] = []
  const titles: string[] = []
  for (const [, indent = '', , title = ''] of source.matchAll(opener)) {
    while ((groups.at(-1)?.indent ?? -1) >= indent.length) groups.pop()
    groups.push({ indent: indent.length, title: title.replaceAll("\\'", "'") })
    titles.push(groups.map((group) => group.title).join(' '))
  }
  return titles
}

test('every named test exists', async () => {
  const missing: string[] = []
  for (const [file, title] of rows.flatMap(({ tests }) => tests)) {
    const [path = ''] = new Bun.Glob(`test/features/**/${file}.test.ts`).scanSync({ cwd: ROOT })
    const titles = readTitles(await Bun.file(join(ROOT, path)).text())
    if (!titles.some((full) => full.startsWith(title))) missing.push(`${file}: ${title}`)
  }
  expect(missing).toEqual([])
})

describe.each<[Provider, string, () => Promise<readonly string[]>]>([
  ['Resend', '/resend', listResendRequests],
  ['Postmark', '/postmark', listPostmarkRequests],
  ['Mailgun', '/mailgun', listMailgunRequests],
])('the table of %s', (provider, prefix, listRequests) => {
  const withoutNames = (path: string) => path.replace(/\{\w+\}/g, '{}')

  test('has every route of the service and no other', () => {
    const served = listOpenedRoutes(service, { ofDialects: true })
      .filter((route) => route.includes(` ${prefix}/`))
      .map((route) => withoutNames(route.replace(prefix, '')))
    const named = rowsOf(provider)
      .filter(({ state }) => state !== 'absent')
      .flatMap((row) => row.routes.map(([method, path]) => withoutNames(`${method} ${path}`)))
    expect([...new Set(named)].sort()).toEqual([...new Set(served)].sort())
  })

  test('has every request that the client can make', async () => {
    const patterns = rowsOf(provider).flatMap(({ routes, text }) =>
      routes.map(([method, path]) => {
        const pattern = path.replace(/\{\w+\}/g, '[^/]*')
        return new RegExp(text.includes(' and all below ') ? `^[A-Z]+ ${pattern}(?:/.*)?$` : `^${method} ${pattern}/?$`)
      }),
    )
    const requests = await listRequests()
    expect(requests.length).toBeGreaterThan(40)
    expect(requests.filter((request) => !patterns.some((pattern) => pattern.test(request)))).toEqual([])
  })
})

const FORMS = {
  Resend: {
    headers: (key: string) => ({ authorization: `Bearer ${key}` }),
    code: ['name', 'not_found'],
    text: 'message',
  },
  Postmark: {
    headers: (key: string) => ({ 'x-postmark-server-token': key }),
    code: ['ErrorCode', 404],
    text: 'Message',
  },
  Mailgun: {
    headers: (key: string) => ({ authorization: `Basic ${btoa(`api:${key}`)}` }),
    code: ['message', expect.any(String)],
    text: 'message',
  },
} as const

test.each(
  (['Resend', 'Postmark', 'Mailgun'] as const).flatMap((provider) =>
    absentRoutesOf(provider).map(([method, path]) => [provider, method, path] as const),
  ),
)('what is named as absent is a 404 that says so: %s, %s %s', async (provider, method, path) => {
  const { headers, code, text } = FORMS[provider]
  const response = await fetch(`${service.url}/${provider.toLowerCase()}${path.replace(/\{\w+\}/g, 'x')}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers(service.key) },
    ...(method !== 'GET' && { body: '{}' }),
  })
  const body = await response.json()
  expect([response.status, at(body, code[0])]).toEqual([404, code[1]])
  expect(String(at(body, text))).toMatch(
    provider === 'Postmark' ? /does not offer this part/ : /not part of this service/,
  )
})

/** Arguments with which the methods of a client get as far as a request. */
const ARGUMENTS: readonly unknown[][] = [
  ['x', {}, {}],
  [{}, {}, {}],
  [[], {}],
  [{ webhookId: 'x', emails: ['x'], to: 'x' }],
]

async function callEveryMethod(object: object): Promise<void> {
  for (let proto = Object.getPrototypeOf(object); proto !== Object.prototype; proto = Object.getPrototypeOf(proto)) {
    for (const name of Object.getOwnPropertyNames(proto).filter((own) => own !== 'constructor')) {
      const method = Reflect.get(object, name) as unknown
      if (typeof method !== 'function') continue
      // Arguments that a method cannot use make it throw before it requests anything.
      for (const given of ARGUMENTS)
        await Promise.try(() => method.apply(object, given) as unknown).catch(() => undefined)
    }
  }
}

/** Method and path of every request that Resend's client can make. */
async function listResendRequests(): Promise<string[]> {
  const requests = new Set<string>()
  const client = new Resend('re_123')
  client.fetchRequest = async (path: string, { method = 'GET' }: { method?: string } = {}) => {
    requests.add(`${method} ${path.replace(/\?.*/, '')}`)
    return { data: { raw: {}, attachments: [] }, error: null, headers: {} } as never
  }
  const seen = new Set<unknown>([client])
  const visit = async (object: object): Promise<void> => {
    for (const part of Object.values(object)) {
      if (typeof part !== 'object' || part === null || part instanceof Headers || seen.has(part)) continue
      seen.add(part)
      await callEveryMethod(part)
      await visit(part)
    }
  }
  await visit(client)
  return [...requests].sort()
}

/** Method and path of every request that Postmark's client can make. */
async function listPostmarkRequests(): Promise<string[]> {
  const requests = new Set<string>()
  const client = new ServerClient('token')
  const httpRequest = async (method: string, path: string) => {
    requests.add(`${method} ${path.replace(/\?.*/, '')}`)
    return {}
  }
  // Without callbacks, which the arguments are not.
  Object.assign(client, { httpClient: { httpRequest }, processCallbackRequest: () => undefined })
  await callEveryMethod(client)
  return [...requests].sort()
}

/** Method and path of every request that Mailgun's client can make, other than of its other products. */
async function listMailgunRequests(): Promise<string[]> {
  const requests = new Set<string>()
  const client = createMailgun({ url: 'http://127.0.0.1:1', key: 'x' }, '')
  const { domains, webhooks, events, stats, suppressions, messages, routes, lists } = client
  const { request } = messages as unknown as { request: { requestProvider: { makeRequest: unknown } } }
  request.requestProvider.makeRequest = async (url: string, method: string) => {
    requests.add(`${method} ${new URL(url).pathname}`)
    return {
      body: { domain: {}, items: [], paging: {}, stats: [], webhooks: {}, template: {}, tag: {}, tracking: {} },
      status: 200,
    }
  }
  const parts = [domains, webhooks, events, stats, suppressions, messages, routes, lists, lists.members]
  for (const part of [...parts, ...Object.values(domains).filter((value) => Object.hasOwn(value ?? {}, 'baseRoute'))])
    await callEveryMethod(part as object)
  for (const type of ['bounces', 'complaints', 'unsubscribes', 'whitelists'] as const) {
    const calls = [
      () => suppressions.list('x', type),
      () => suppressions.get('x', type, 'y'),
      () => suppressions.create('x', type, { address: 'y' }),
      () => suppressions.destroy('x', type, 'y'),
      () => suppressions.destroyAll('x', type),
      () => suppressions.upload('x', type, 'address'),
    ]
    for (const call of calls) await call().catch(() => undefined)
  }
  const data = { to: 'a@b.test', from: 'a@b.test' }
  for (const more of [{ text: 'x' }, { message: 'x' }])
    await messages.create('x', { ...data, ...more }).catch(() => undefined)
  return [...requests].filter((path) => /^\w+ \/v[34]\//.test(path) && !path.includes('object')).sort()
}
