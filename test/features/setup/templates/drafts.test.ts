/** @module Unsaved text is rendered with its problems, and shown in a frame to the account's users only. */
import { expect, test } from 'bun:test'
import { createPreviewStore } from '#features/setup/templates/preview-store.ts'
import { MiB, minutes } from '#platform/units.ts'
import { at, createTestApi } from '#test/support/api.ts'
import { expectError } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { createTestUser, signIn } from '#test/support/users.ts'

const NAME = { user: { name: 'Ada & Bob' } }

// Proves: template-11
test('unsaved text is rendered as a send would, and nothing is stored', async () => {
  await using service = await createTestApi()
  const { api } = service
  const draft = {
    subject: ' Hello\n{{ user.name }} ',
    html_body: '<p>{{ user.name }}</p>',
    text_body: '{{ user.name }}',
    template_data: NAME,
  }
  const rendered = await api('POST', '/v1/templates/render', draft)
  expect({ status: rendered.status, body: rendered.body }).toEqual({
    status: 200,
    body: {
      data: {
        subject: 'Hello Ada & Bob',
        html_body: '<p>Ada &amp; Bob</p>',
        text_body: 'Ada & Bob',
        problems: [],
        preview_id: null,
      },
    },
  })
  const partial = await api('POST', '/v1/templates/render', { subject: 'Hello', html_body: null, template_data: [] })
  expect(at(partial.body, 'data')).toMatchObject({ subject: 'Hello', html_body: null, text_body: null, problems: [] })
  expect(at((await api('GET', '/v1/templates')).body, 'data')).toEqual([])
})

// Proves: template-11
test('a problem has field, line, column and variable, and leaves the other parts', async () => {
  await using service = await createTestApi()
  const answer = await service.api('POST', '/v1/templates/render', {
    subject: 'Hello {{ user.name }}',
    html_body: '<p>\n  {{ username }} {{ order.id }} {{ name }}\n</p>',
    text_body: 'one\n{% if %}',
    template_data: { username: 'x', user: { name: 'Ada' }, order: { id: 7 } },
  })
  expect(at(answer.body, 'data')).toEqual({
    subject: 'Hello Ada',
    html_body: null,
    text_body: null,
    preview_id: null,
    problems: [
      {
        field: 'html_body',
        line: 2,
        column: 36,
        variable: 'name',
        kind: 'missing_variable',
        message: 'html_body, line 2: the variable "name" is missing in template_data.',
      },
      {
        field: 'text_body',
        line: 2,
        column: null,
        variable: null,
        kind: 'syntax',
        message: expect.stringContaining('text_body, line 2: '),
      },
    ],
  })
})

test('a subject that a send would refuse is a problem', async () => {
  await using service = await createTestApi()
  const render = async (subject: string, template_data: object) =>
    at((await service.api('POST', '/v1/templates/render', { subject, template_data })).body, 'data', 'problems')
  expect(await render('{{ x }}', { x: 'a\0' })).toMatchObject([{ field: 'subject', kind: 'error' }])
  expect(await render('{{ x }}', { x: ' ' })).toMatchObject([{ message: 'The rendered subject is empty.' }])
  expect(await render('{{ x }}', { x: 'a'.repeat(999) })).toMatchObject([
    { message: 'The rendered subject has 999 characters; at most 998 are allowed.' },
  ])
})

test('an endless loop ends with a problem, and takes no rendering time from the mail', async () => {
  // The strikes of an account expire.
  await using service = await createTestApi({ clock: new ManualClock() })
  const { api } = service
  const loop = '{% for a in range(100000) %}{% for b in range(100000) %}{{ a * b }}{% endfor %}{% endfor %}'
  for (let n = 0; n < 6; n++) {
    const answer = await api('POST', '/v1/templates/render', { subject: 'x', html_body: loop, text_body: loop })
    expect(at(answer.body, 'data')).toMatchObject({
      subject: 'x',
      problems: [
        { field: 'html_body', kind: 'limit' },
        { field: 'text_body', kind: 'limit' },
      ],
    })
  }
  // Twelve strikes of the account itself would leave a tenth of the work: too little for this template.
  const heavy = '{% for a in range(40000) %}{{ a }}{% endfor %}'
  const created = await api('POST', '/v1/templates', { alias: 'heavy', name: 'x', subject: 'x', text_body: heavy })
  const rendered = await api('POST', `/v1/templates/${at(created.body, 'data', 'id')}/render`, {})
  expect(rendered.status).toBe(200)
  const draft = await api('POST', '/v1/templates/render', { text_body: heavy })
  expect(at(draft.body, 'data', 'problems')).toMatchObject([{ kind: 'limit' }])
})

test('too much text or data is refused or a problem; no part is a 422', async () => {
  await using service = await createTestApi()
  const { api } = service
  const large = await api('POST', '/v1/templates/render', { subject: 'x', html_body: 'x'.repeat(5 * MiB) })
  expect(at(large.body, 'data')).toMatchObject({
    subject: 'x',
    html_body: null,
    problems: [{ field: 'html_body', line: null, kind: 'limit' }],
  })
  const data = { x: 'x'.repeat(MiB) }
  const refused = await api('POST', '/v1/templates/render', { subject: 'x', template_data: data })
  expectError(refused, 422, 'validation_failed', 'template_data')
  for (const body of [{}, { subject: '', html_body: null }, { template_data: {} }])
    expectError(await api('POST', '/v1/templates/render', body), 422, 'validation_failed', 'body')
})

// Proves: template-14
test('a user gets the HTML as a page for a frame that runs nothing; another account does not', async () => {
  await using service = await createTestApi()
  const { app, actor, url } = service
  await createTestUser(app, actor, 'vera@people.test', 'viewer')
  const vera = await signIn(service, 'vera@people.test')
  const html_body = '<script>alert(1)</script><link rel=preload href=https://a.test/><p>{{ x }}</p>'
  const answer = await vera.ask('POST', '/v1/templates/render', { html_body, template_data: { x: 1 } })
  const id = String(at(answer.body, 'data', 'preview_id'))
  const read = (path: string, cookie?: string) =>
    fetch(`${url}${path}`, { headers: cookie === undefined ? {} : { cookie } })
  const page = await read(`/app/previews/${id}`, vera.cookie)
  expect(page.status).toBe(200)
  const [html, font] = (await page.text()).split('<style>')
  expect(html).toBe('<script>alert(1)</script><basefont rel=preload href=https://a.test/><p>1</p>')
  expect(font).toContain('Arial')
  expect(page.headers.get('content-security-policy')).toMatch(
    /^sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:;/,
  )
  expect((await read(`/app/previews/${id}?images=1`, vera.cookie)).headers.get('content-security-policy')).toContain(
    'img-src data: https: http:',
  )
  expect((await read(`/app/previews/${id}`)).status).toBe(401)
  expect((await read('/app/previews/unknown', vera.cookie)).status).toBe(404)
  await createTestUser(app, await service.newAccount(), 'eve@people.test', 'owner')
  const eve = await signIn(service, 'eve@people.test')
  expect((await read(`/app/previews/${id}`, eve.cookie)).status).toBe(404)
})

test('previews expire, and their number and memory are limited', () => {
  const clock = new ManualClock()
  const store = createPreviewStore(clock)
  const first = store.add(1, 'first')
  expect([store.find(1, first), store.find(2, first)]).toEqual(['first', undefined])
  for (let n = 0; n < 20; n++) store.add(1, 'more')
  expect(store.find(1, first)).toBeUndefined()
  const second = store.add(2, 'second')
  clock.advance(minutes(10) - 1)
  expect(store.find(2, second)).toBe('second')
  clock.advance(1)
  expect(store.find(2, second)).toBeUndefined()
  const large = Array.from({ length: 9 }, (_, n) => store.add(n, 'x'.repeat(MiB)))
  expect(large.map((id, n) => store.find(n, id) !== undefined)).toEqual([false, ...Array(8).fill(true)])
})

test('the previews of the owner that takes most memory are dropped first', () => {
  const store = createPreviewStore(new ManualClock(), (accountId) => Math.min(accountId, 10))
  const other = store.add(1, 'x'.repeat(MiB))
  const large = Array.from({ length: 20 }, (_, n) => store.add(10 + n, 'x'.repeat(MiB)))
  expect(store.find(1, other)).toBeDefined()
  expect(large.map((id, n) => store.find(10 + n, id) !== undefined)).toEqual([
    ...Array(13).fill(false),
    ...Array(7).fill(true),
  ])
})
