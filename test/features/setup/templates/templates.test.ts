import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { findTemplateById, findTemplateByRowId, findTemplateUuid } from '#features/setup/templates/templates.ts'
import { listVersions, MAX_VERSIONS, MAX_VERSIONS_BYTES } from '#features/setup/templates/versions.ts'
import { KiB, MiB } from '#platform/units.ts'
import { type ApiResponse, at, createTestApi, type TestApi } from '#test/support/api.ts'
import { createTestApp, type TestApp } from '#test/support/app.ts'
import { expectError, UUID } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createTestUser, signIn } from '#test/support/users.ts'

const WELCOME = {
  alias: 'welcome',
  name: 'Welcome',
  subject: 'Welcome, {{ user.name }}',
  html_body: '<p>Hello {{ user.name }}.</p>',
  text_body: 'Hello {{ user.name }}.',
}

/** For tests that use only their own templates; `createAlias()` returns a new alias. */
let shared: TestApi
beforeAll(async () => {
  shared = await createTestApi()
})
afterAll(() => shared[Symbol.asyncDispose]())

let aliases = 0
const createAlias = (): { alias: string } => ({ alias: `welcome-${++aliases}` })

const requestTemplate = ({ api }: TestApi, change: Record<string, unknown> = {}): Promise<ApiResponse> =>
  api('POST', '/v1/templates', { ...WELCOME, ...change })

async function createTemplate(service: TestApi, change: Record<string, unknown> = {}): Promise<string> {
  const answer = await requestTemplate(service, change)
  if (answer.status !== 201) throw new Error(`refused: ${JSON.stringify(answer.body)}`)
  return String(at(answer.body, 'data', 'id'))
}

// Proves: template-1, template-2, template-4, template-5, template-6, template-7, template-8
test('a template is created, read, changed and deleted, each change with an audit entry', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15))
  await using service = await createTestApi({ clock })
  const { api, actor } = service
  const created = await requestTemplate(service)
  const id = String(at(created.body, 'data', 'id'))
  const record = {
    id,
    account_id: actor.accountUuid,
    ...WELCOME,
    test_data: null,
    locale: null,
    version: 1,
    created_at: '2026-03-15T00:00:00.000Z',
    updated_at: '2026-03-15T00:00:00.000Z',
  }
  expect(id).toMatch(UUID)
  expect({ status: created.status, body: created.body }).toEqual({ status: 201, body: { data: record } })
  expect((await api('GET', `/v1/templates/${id}`)).body).toEqual({ data: record })

  clock.advance(1000)
  const changed = await api('PUT', `/v1/templates/${id}`, { text_body: 'Hi {{ user.name }}.' })
  const later = { ...record, text_body: 'Hi {{ user.name }}.', version: 2, updated_at: '2026-03-15T00:00:01.000Z' }
  expect({ status: changed.status, body: changed.body }).toEqual({ status: 200, body: { data: later } })
  expect((await api('GET', `/v1/templates/${id}`)).body).toEqual({ data: later })
  const { test_data: _, ...row } = later
  expect((await api('GET', '/v1/templates')).body).toEqual({
    data: [{ ...row, truncated: false }],
    pagination: { page: 1, per_page: 25, total: 1, total_pages: 1 },
  })

  const deleted = await api('DELETE', `/v1/templates/${id}`)
  expect({ status: deleted.status, body: deleted.body }).toEqual({ status: 204, body: undefined })
  for (const [method, body] of [
    ['GET', undefined],
    ['PUT', { name: 'x' }],
    ['DELETE', undefined],
  ] as const)
    expectError(await api(method, `/v1/templates/${id}`, body), 404, 'template_not_found')
  expectError(await api('POST', `/v1/templates/${id}/render`), 404, 'template_not_found')
  expect(at((await api('GET', '/v1/templates')).body, 'data')).toEqual([])
  const log = at((await api('GET', '/v1/audit-logs?per_page=3')).body, 'data') as { action: string }[]
  expect(
    log.map((entry) => [entry.action, at(entry, 'resource_type'), at(entry, 'resource_id'), at(entry, 'metadata')]),
  ).toEqual([
    ['template.deleted', 'template', id, { alias: 'welcome', name: 'Welcome' }],
    ['template.updated', 'template', id, { alias: 'welcome', name: 'Welcome', version: 2 }],
    ['template.created', 'template', id, { alias: 'welcome', name: 'Welcome' }],
  ])
})

// Proves: template-2
test('omitted, null and empty bodies mean none', async () => {
  await using service = await createTestApi()
  const { alias: _, html_body: __, text_body: ___, ...bare } = WELCOME
  for (const [alias, bodies] of [
    ['missing', {}],
    ['null', { html_body: null, text_body: null }],
    ['empty', { html_body: '', text_body: '' }],
  ] as const) {
    const answer = await service.api('POST', '/v1/templates', { ...bare, alias, ...bodies })
    expect(at(answer.body, 'data')).toMatchObject({ alias, html_body: null, text_body: null })
  }
})

describe('the alias', () => {
  // Proves: template-3
  test('is unique in an account (409) but not across accounts, and free again after a deletion', async () => {
    await using service = await createTestApi()
    const { api } = service
    const first = await createTemplate(service)
    expectError(await requestTemplate(service, { name: 'Another' }), 409, 'template_exists')
    const other = await service.newKey([], await service.newAccount())
    expect((await api('POST', '/v1/templates', WELCOME, { key: other })).status).toBe(201)
    await api('DELETE', `/v1/templates/${first}`)
    expect(await createTemplate(service)).not.toBe(first)
  })

  test('can be changed, but fails with 409 when it is taken', async () => {
    await using service = await createTestApi()
    const { api } = service
    const first = await createTemplate(service)
    await createTemplate(service, { alias: 'other' })
    expectError(await api('PUT', `/v1/templates/${first}`, { alias: 'other' }), 409, 'template_exists')
    const changed = await api('PUT', `/v1/templates/${first}`, { alias: 'Welcome.v2' })
    expect(at(changed.body, 'data')).toMatchObject({ alias: 'Welcome.v2', version: 1 })
    expect((await api('PUT', `/v1/templates/${first}`, { alias: 'Welcome.v2' })).status).toBe(200)
  })

  // Proves: template-2
  test.each(['', 'a b', 'a/b', 'ünïcode', 'a'.repeat(101), 'a\n', '{{ x }}'])(
    '%j is invalid: the 422 states the allowed form',
    async (alias) => {
      const refused = await requestTemplate(shared, { alias })
      expectError(refused, 422, 'validation_failed', 'alias')
      expect(at(refused.body, 'message')).toBe(
        'The alias must have 1 to 100 characters of A to Z, a to z, 0 to 9, ".", "_" and "-".',
      )
    },
  )

  test('may have 100 characters', async () => {
    expect((await requestTemplate(shared, { alias: 'Aa0._-'.padEnd(100, 'x') })).status).toBe(201)
  })
})

describe('a change', () => {
  // Proves: template-5
  test('keeps omitted fields, and removes a body that is null', async () => {
    const { api } = shared
    const own = createAlias()
    const id = await createTemplate(shared, own)
    const changed = await api('PUT', `/v1/templates/${id}`, { name: ' Hello ', html_body: null })
    expect(at(changed.body, 'data')).toMatchObject({ ...WELCOME, ...own, name: 'Hello', html_body: null, version: 2 })
  })

  // Proves: template-5
  test('of the name, or to the same value, makes no new version', async () => {
    const { api } = shared
    const own = createAlias()
    const id = await createTemplate(shared, own)
    await api('PUT', `/v1/templates/${id}`, { name: 'Another name' })
    const same = await api('PUT', `/v1/templates/${id}`, { ...WELCOME, ...own })
    expect(at(same.body, 'data', 'version')).toBe(1)
    for (const [version, change] of [{ subject: 'S' }, { html_body: 'H' }, { text_body: 'T' }].entries())
      expect(at((await api('PUT', `/v1/templates/${id}`, change)).body, 'data', 'version')).toBe(version + 2)
  })

  // Proves: template-5
  test('without a field, or with an unknown one, fails with 422 and changes nothing', async () => {
    const { api } = shared
    const id = await createTemplate(shared, createAlias())
    const before = (await api('GET', `/v1/templates/${id}`)).body
    expectError(await api('PUT', `/v1/templates/${id}`, {}), 422, 'validation_failed', 'body')
    expectError(await api('PUT', `/v1/templates/${id}`, { colour: 'red' }), 422, 'validation_failed', 'colour')
    expectError(await api('PUT', `/v1/templates/${id}`, { name: 'x', id }), 422, 'validation_failed', 'id')
    expect((await api('GET', `/v1/templates/${id}`)).body).toEqual(before)
  })
})

describe('limits', () => {
  const wrong: readonly [rule: string, change: Record<string, unknown>, field: string][] = [
    ['a name of spaces', { name: ' ' }, 'name'],
    ['a subject of 999 characters', { subject: 'x'.repeat(999) }, 'subject'],
    ['a subject of spaces', { subject: ' ' }, 'subject'],
    ['an HTML body of more than 1 MiB', { html_body: 'x'.repeat(MiB + 1) }, 'html_body'],
    ['a text body of more than 1 MiB in UTF-8', { text_body: 'ü'.repeat(MiB / 2 + 1) }, 'text_body'],
  ]
  // Proves: template-10
  test.each(wrong)('%s fails with 422, at creation and at a change', async (_, change, field) => {
    expectError(await requestTemplate(shared, { ...createAlias(), ...change }), 422, 'validation_failed', field)
    const id = await createTemplate(shared, createAlias())
    expectError(await shared.api('PUT', `/v1/templates/${id}`, change), 422, 'validation_failed', field)
  })

  // Proves: template-10
  test('two bodies of 1 MiB and a name of 200 characters are stored unchanged', async () => {
    const large = { name: 'n'.repeat(200), html_body: 'x'.repeat(MiB), text_body: 'ü'.repeat(MiB / 2) }
    const id = await createTemplate(shared, { ...createAlias(), ...large })
    expect(at((await shared.api('GET', `/v1/templates/${id}`)).body, 'data')).toMatchObject(large)
  })

  // Proves: template-1
  test('a list omits bodies of more than 64 KiB and says so', async () => {
    await using service = await createTestApi()
    const fits = { html_body: 'x'.repeat(64 * KiB), text_body: 'ü'.repeat(32 * KiB) }
    await createTemplate(service, { alias: 'fits', ...fits })
    await createTemplate(service, { alias: 'long', html_body: 'x'.repeat(64 * KiB + 1), text_body: 'short' })
    await createTemplate(service, { alias: 'longer', html_body: null, text_body: `ü${'x'.repeat(64 * KiB - 1)}` })
    const rows = at((await service.api('GET', '/v1/templates')).body, 'data') as Record<string, unknown>[]
    const seen = rows.map(({ alias, html_body, text_body, truncated }) => ({ alias, html_body, text_body, truncated }))
    expect(seen).toEqual([
      { alias: 'longer', html_body: null, text_body: null, truncated: true },
      { alias: 'long', html_body: null, text_body: 'short', truncated: true },
      { alias: 'fits', ...fits, truncated: false },
    ])
  })
})

describe('a syntax error', () => {
  const faults: readonly [rule: string, change: Record<string, unknown>, field: string, line: string][] = [
    ['subject', { subject: 'Hello {{ name' }, 'subject', 'line 1'],
    ['HTML body', { html_body: '<p>\n{% if x %}\n</p>' }, 'html_body', 'line'],
    ['text body', { text_body: 'a\nb\n{% endfor %}' }, 'text_body', 'line 3'],
    ['name of a filter', { text_body: '{{ name | explode }}' }, 'text_body', 'explode'],
  ]
  // Proves: template-9
  test.each(faults)(
    'in the %s fails with a 422 that says where, and nothing is stored',
    async (_, change, field, words) => {
      await using service = await createTestApi()
      const { api } = service
      const refused = await requestTemplate(service, change)
      expectError(refused, 422, 'template_error', field)
      expect(at(refused.body, 'message')).toContain(words)
      expect(at(refused.body, 'message')).toContain(field)
      expect(at((await api('GET', '/v1/templates')).body, 'data')).toEqual([])
      const id = await createTemplate(service)
      const before = (await api('GET', `/v1/templates/${id}`)).body
      expectError(await api('PUT', `/v1/templates/${id}`, change), 422, 'template_error', field)
      expect((await api('GET', `/v1/templates/${id}`)).body).toEqual(before)
    },
  )

  test('in several parts is reported for each', async () => {
    const refused = await requestTemplate(shared, {
      ...createAlias(),
      subject: '{{',
      html_body: '{% for %}',
      text_body: '{{ a b }}',
    })
    expectError(refused, 422, 'template_error', 'subject', 'html_body', 'text_body')
  })
})

describe('the preview', () => {
  // Proves: template-7
  test('shows all parts with the data, escaped in HTML alone, and sends nothing', async () => {
    const { api, app } = shared
    const id = await createTemplate(shared, { ...createAlias(), subject: 'Hello\n  {{ user.name }} ' })
    const shown = await api('POST', `/v1/templates/${id}/render`, { template_data: { user: { name: 'Ann & <Bo>' } } })
    expect({ status: shown.status, body: shown.body }).toEqual({
      status: 200,
      body: {
        data: {
          subject: 'Hello Ann & <Bo>',
          html_body: '<p>Hello Ann &amp; &lt;Bo&gt;.</p>',
          text_body: 'Hello Ann & <Bo>.',
        },
      },
    })
    expect(app.db.query('SELECT * FROM emails').all()).toEqual([])
  })

  test('without data uses the test data of the template, which a send does not', async () => {
    const { api } = shared
    const id = await createTemplate(shared, { ...createAlias(), test_data: { user: { name: 'Ann' } } })
    const path = `/v1/templates/${id}`
    expect(at((await api('GET', path)).body, 'data', 'test_data')).toEqual({ user: { name: 'Ann' } })
    expect(at((await api('POST', `${path}/render`, {})).body, 'data', 'text_body')).toContain('Ann')
    expectError(await api('POST', `${path}/render`, { template_data: null }), 422, 'template_error', 'subject')
    const changed = await api('PUT', path, { test_data: { user: { name: 'Bo' } } })
    expect(at(changed.body, 'data')).toMatchObject({ version: 1, test_data: { user: { name: 'Bo' } } })
    const long = await api('PUT', path, { test_data: { user: 'x'.repeat(64 * KiB) } })
    expect([long.status, at(long.body, 'error', 'message')]).toEqual([422, expect.stringContaining('test_data')])
    await api('PUT', path, { test_data: null })
    expect((await api('POST', `${path}/render`, {})).status).toBe(422)
  })

  test.each([undefined, null, {}, { template_data: null }, { template_data: {} }, { template_data: [] }])(
    'with a request body of %j has no data, and absent parts are null',
    async (body) => {
      const id = await createTemplate(shared, {
        ...createAlias(),
        subject: 'Hello',
        html_body: null,
        text_body: '{{ 1 + 1 }}',
      })
      const shown = await shared.api('POST', `/v1/templates/${id}/render`, body)
      expect(shown.body).toEqual({ data: { subject: 'Hello', html_body: null, text_body: '2' } })
    },
  )

  // Proves: template-7
  test('without a needed variable fails with a 422 that names part, line and variable', async () => {
    const id = await createTemplate(shared, {
      ...createAlias(),
      subject: 'Hello',
      html_body: null,
      text_body: 'a\nb {{ user.name }}',
    })
    const refused = await shared.api('POST', `/v1/templates/${id}/render`, { template_data: { user: {} } })
    expectError(refused, 422, 'template_error', 'text_body')
    for (const words of ['text_body', 'line 2', 'user.name']) expect(at(refused.body, 'message')).toContain(words)
  })

  test.each([
    ['text', 'template_data'],
    [['x'], 'template_data'],
    [{ a: 'x'.repeat(MiB) }, 'template_data'],
  ])('with data that is not an object, or too large, fails with 422 (%#)', async (template_data, field) => {
    const id = await createTemplate(shared, createAlias())
    const refused = await shared.api('POST', `/v1/templates/${id}/render`, { template_data })
    expectError(refused, 422, 'validation_failed', field)
  })
})

// Proves: template-6
test('a deleted template keeps its row, to which emails refer, without its sources', async () => {
  await using service = await createTestApi()
  const { app, actor } = service
  const id = await createTemplate(service)
  const row = findTemplateById(app.db, actor.accountId, id)?.id ?? 0
  expect(findTemplateByRowId(app.db, row)).toMatchObject({ id: row, alias: 'welcome', version: 1 })
  await service.api('DELETE', `/v1/templates/${id}`)
  expect([
    findTemplateByRowId(app.db, row),
    findTemplateById(app.db, actor.accountId, id),
    findTemplateUuid(app.db, row),
  ]).toEqual([undefined, undefined, id])
  expect(app.db.query('SELECT subject, html_body, text_body FROM templates WHERE id = ?').get(row)).toEqual({
    subject: '',
    html_body: null,
    text_body: null,
  })
})

const FIRST = { alias: 'welcome', name: 'Welcome', subject: 'One', html_body: '<p>One</p>', text_body: null }

async function createFirst({ api }: TestApi): Promise<string> {
  return String(at((await api('POST', '/v1/templates', FIRST)).body, 'data', 'id'))
}

const listNumbers = async ({ api }: TestApi, id: string): Promise<number[]> =>
  (at((await api('GET', `/v1/templates/${id}/versions?per_page=100`)).body, 'data') as { version: number }[]).map(
    ({ version }) => version,
  )

// Proves: template-12
test('each change of the texts stores a version with its time and actor; a restored one is a new version', async () => {
  const clock = new ManualClock(Date.UTC(2026, 2, 15))
  await using service = await createTestApi({ clock })
  const { api, app, actor } = service
  const id = await createFirst(service)
  const { user } = await createTestUser(app, actor, 'ada@people.test', 'developer')
  const ada = await signIn(service, 'ada@people.test')
  clock.advance(1000)
  await ada.ask('PUT', `/v1/templates/${id}`, { subject: 'Two', html_body: null, text_body: 'Two' })
  await api('PUT', `/v1/templates/${id}`, { name: 'Renamed' })
  const list = await api('GET', `/v1/templates/${id}/versions`)
  const first = {
    version: 1,
    subject: 'One',
    actor_type: 'api_key',
    actor_id: expect.any(String),
    created_at: '2026-03-15T00:00:00.000Z',
  }
  expect(list.body).toEqual({
    data: [
      {
        version: 2,
        subject: 'Two',
        actor_type: 'user',
        actor_id: String(at((await ada.ask('GET', '/v1/auth/session')).body, 'data', 'user', 'id')),
        created_at: '2026-03-15T00:00:01.000Z',
      },
      first,
    ],
    pagination: { page: 1, per_page: 25, total: 2, total_pages: 1 },
  })
  expect(user.id).toBeGreaterThan(0)
  expect((await api('GET', `/v1/templates/${id}/versions/1`)).body).toEqual({
    data: { ...first, html_body: '<p>One</p>', text_body: null },
  })

  const restored = await api('POST', `/v1/templates/${id}/versions/1/restore`, { if_version: 2 })
  expect(at(restored.body, 'data')).toMatchObject({ ...FIRST, name: 'Renamed', version: 3 })
  expect(await listNumbers(service, id)).toEqual([3, 2, 1])
  const log = at((await api('GET', '/v1/audit-logs?per_page=1')).body, 'data', '0')
  expect([at(log, 'action'), at(log, 'metadata')]).toEqual([
    'template.updated',
    { alias: 'welcome', name: 'Renamed', version: 3, restored_version: 1 },
  ])
})

// Proves: template-13
test('a change that is based on another version is a 409 with the current one, and changes nothing', async () => {
  await using service = await createTestApi()
  const { api } = service
  const id = await createFirst(service)
  const change = (subject: string, if_version: number) => api('PUT', `/v1/templates/${id}`, { subject, if_version })
  expect((await change('Two', 1)).status).toBe(200)
  const refused = await change('Other', 1)
  const { version, ...body } = refused.body as Record<string, unknown>
  expect(version).toBe(2)
  expectError({ ...refused, body }, 409, 'template_changed')
  const stale = await api('POST', `/v1/templates/${id}/versions/1/restore`, { if_version: 1 })
  expect([stale.status, at(stale.body, 'code')]).toEqual([409, 'template_changed'])
  expect(at((await api('GET', `/v1/templates/${id}`)).body, 'data')).toMatchObject({ subject: 'Two', version: 2 })
  expect((await change('Three', 2)).status).toBe(200)
  expectError(await api('PUT', `/v1/templates/${id}`, { if_version: 3 }), 422, 'validation_failed', 'body')
  // Of twenty at once, one is saved.
  const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => change(`Of ${n}`, 3)))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
})

test('the newest 50 versions are stored, at most 4 MiB, and none of a deleted template', async () => {
  await using service = await createTestApi()
  const { api, app } = service
  const id = await createFirst(service)
  for (let n = 2; n <= MAX_VERSIONS + 5; n++) await api('PUT', `/v1/templates/${id}`, { subject: `Subject ${n}` })
  const numbers = await listNumbers(service, id)
  expect([numbers.length, numbers[0], numbers.at(-1)]).toEqual([MAX_VERSIONS, MAX_VERSIONS + 5, 6])
  expectError(await api('GET', `/v1/templates/${id}/versions/5`), 404, 'template_version_not_found')
  for (let n = 0; n < 6; n++)
    await api('PUT', `/v1/templates/${id}`, { html_body: `${n}${'x'.repeat(MiB - 1)}`, text_body: null })
  expect(await listNumbers(service, id)).toHaveLength(MAX_VERSIONS_BYTES / MiB - 1)
  const template = findTemplateById(app.db, service.actor.accountId, id)
  await api('DELETE', `/v1/templates/${id}`)
  expect(listVersions(app.db, template?.id ?? 0, { limit: 10, offset: 0 })).toEqual({ versions: [], total: 0 })
})

test('unknown versions and wrong numbers are a 404', async () => {
  await using service = await createTestApi()
  const id = await createFirst(service)
  for (const version of ['0', '2', '-1', '1.0', 'x', '99999999999999999999'])
    expectError(await service.api('GET', `/v1/templates/${id}/versions/${version}`), 404, 'template_version_not_found')
})

test('the list is searched by alias and name', async () => {
  await using service = await createTestApi()
  const { api } = service
  for (const [alias, name] of [
    ['welcome', 'Greeting'],
    ['receipt', 'Your WELCOME order'],
    ['other', '100 %_'],
  ])
    await api('POST', '/v1/templates', { ...FIRST, alias, name })
  const find = async (search: string, rest = '') => {
    const { body } = await api('GET', `/v1/templates?search=${encodeURIComponent(search)}${rest}`)
    const aliases = (at(body, 'data') as { alias: string }[]).map(({ alias }) => alias)
    return [aliases, at(body, 'pagination', 'total')]
  }
  expect(await find('Welcome')).toEqual([['receipt', 'welcome'], 2])
  expect(await find('welcome', '&per_page=1&page=2')).toEqual([['welcome'], 2])
  expect(await find('%_')).toEqual([['other'], 1])
  expect(await find("' OR 1=1")).toEqual([[], 0])
  expectError(await api('GET', `/v1/templates?search=${'x'.repeat(201)}`), 422, 'validation_failed', 'search')
})

const markdown = await Bun.file(join(import.meta.dir, '../../../../docs/templates.md')).text()
const dataJson = /^```json\n(.*?)^```$/ms.exec(markdown)?.[1] ?? ''
/** Table rows of two code spans: a source and its output. A vertical bar in a table is escaped. */
const rows = [...markdown.matchAll(/^\| `(.+)` \| `(.+)` \|$/gm)].map(
  ([, source = '', gives = '']) => [source.replaceAll('\\|', '|'), gives] as const,
)

let service: TestApp
beforeAll(async () => {
  service = await createTestApp()
})
afterAll(() => service[Symbol.asyncDispose]())

const render = (source: { text?: string; html?: string }) =>
  service.app.renderer.render({ accountId: 1, urgency: 'now', source, dataJson })

test('docs/templates.md has examples', () => {
  expect(rows.length).toBeGreaterThan(25)
})

// Proves: template-9
test.each(rows)('docs/templates.md: %s renders to %s', async (source, gives) => {
  expect(await render({ text: source })).toEqual({ kind: 'rendered', parts: { text: gives } })
})

test('docs/templates.md: escaping', async () => {
  const [, source = '', gives = ''] = /`([^`]+)` gives `([^`]+)` there/.exec(markdown) ?? []
  const [, safe = ''] = /`([^`]+)` prints as it is/.exec(markdown) ?? []
  expect(await render({ html: source })).toEqual({ kind: 'rendered', parts: { html: gives } })
  expect(await render({ html: safe })).toEqual({ kind: 'rendered', parts: { html: 'a < b' } })
})
