import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { findTemplateById, findTemplateByRowId, findTemplateUuid } from '#features/setup/templates/templates.ts'
import { KiB, MiB } from '#platform/units.ts'
import { type ApiResponse, at, createTestApi, type TestApi } from '#test/support/api.ts'
import { expectError, UUID } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

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
  expect((await api('GET', '/v1/templates')).body).toEqual({
    data: [{ ...later, truncated: false }],
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

  // Proves: template-3
  test('goes to one of 20 concurrent requests for it', async () => {
    await using service = await createTestApi()
    const answers = await Promise.all(Array.from({ length: 20 }, () => requestTemplate(service)))
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 19 }, () => 409)])
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

  test('that never ends fails with 422 template_limit', async () => {
    const bomb =
      '{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}{{ c }}{% endfor %}{% endfor %}{% endfor %}'
    const id = await createTemplate(shared, { ...createAlias(), subject: 'Hello', html_body: null, text_body: bomb })
    expectError(await shared.api('POST', `/v1/templates/${id}/render`), 422, 'template_limit', 'text_body')
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
