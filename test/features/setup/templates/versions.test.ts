/** @module Versions of templates are recorded, listed, read and restored; a change of a stale version is refused. */
import { expect, test } from 'bun:test'
import { findTemplateById } from '#features/setup/templates/templates.ts'
import { listVersions, MAX_VERSIONS, MAX_VERSIONS_BYTES } from '#features/setup/templates/versions.ts'
import { MiB } from '#platform/units.ts'
import { at, createTestApi, type TestApi } from '#test/support/api.ts'
import { expectError } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createTestUser, signIn } from '#test/support/users.ts'

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

test('versions of another account, unknown ones and wrong numbers are a 404', async () => {
  await using service = await createTestApi()
  const { api } = service
  const id = await createFirst(service)
  const key = await service.newKey([], await service.newAccount())
  for (const path of ['/versions', '/versions/1'])
    expectError(await api('GET', `/v1/templates/${id}${path}`, undefined, { key }), 404, 'template_not_found')
  for (const version of ['0', '2', '-1', '1.0', 'x', '99999999999999999999'])
    expectError(await api('GET', `/v1/templates/${id}/versions/${version}`), 404, 'template_version_not_found')
  const reader = await service.newKey(['templates:read'])
  expectError(
    await api('POST', `/v1/templates/${id}/versions/1/restore`, {}, { key: reader }),
    403,
    'insufficient_scope',
  )
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
