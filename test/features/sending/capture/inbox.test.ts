import { expect, setDefaultTimeout, test } from 'bun:test'
import { MiB } from '#platform/units.ts'
import { type ApiResponse, at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createTestUser, postForm } from '#test/support/users.ts'
import { capture, startCapturing } from './fixture.ts'

setDefaultTimeout(120_000)

interface Row {
  readonly id: string
  readonly subject: string
  readonly rcpt_to: readonly string[]
  readonly read: boolean
}

const rowsOf = ({ body }: ApiResponse) => at(body, 'data') as readonly Row[]
const subjectsOf = (answer: ApiResponse) => rowsOf(answer).map(({ subject }) => subject)

// Proves: email-32
test('captured mail is listed once per email, newest first, and found by recipient, sender and subject', async () => {
  await using service = await startCapturing()
  const { api } = service
  await capture(service, { subject: 'Grüße aus Köln', to: ['bob@x.test', 'cy@y.test'] })
  await capture(service, { subject: 'Invoice 47', from: 'Billing <billing@sender.test>', to: 'dora@z.test' })
  const all = await api('GET', '/v1/captured-emails')
  expect(subjectsOf(all)).toEqual(['Invoice 47', 'Grüße aus Köln'])
  expect(rowsOf(all)[1]).toEqual({
    id: expect.any(String),
    from: 'Ada <ada@sender.test>',
    rcpt_to: ['bob@x.test', 'cy@y.test'],
    subject: 'Grüße aus Köln',
    received_at: expect.any(String),
    size_bytes: expect.any(Number),
    read: false,
  } as never)
  for (const [q, subjects] of [
    ['CY@Y', ['Grüße aus Köln']],
    ['GRÜSSE', []],
    ['grüße', ['Grüße aus Köln']],
    ['KÖLN', ['Grüße aus Köln']],
    ['billing', ['Invoice 47']],
    ['%', []],
    ['x.test\ncy', []],
    ['  ', ['Invoice 47', 'Grüße aus Köln']],
  ] as const)
    expect([q, subjectsOf(await api('GET', `/v1/captured-emails?q=${encodeURIComponent(q)}`))]).toEqual([
      q,
      [...subjects],
    ])
  const first = await api('GET', '/v1/captured-emails?per_page=1&q=sender.test')
  const cursor = at(first.body, 'pagination', 'next_cursor')
  expect(at(first.body, 'pagination', 'total')).toBe(2)
  expect(subjectsOf(await api('GET', `/v1/captured-emails?per_page=1&q=sender.test&cursor=${cursor}`))).toEqual([
    'Grüße aus Köln',
  ])
})

// Proves: inbound-41
test('captured forwards have content only for keys that may read received mail', async () => {
  await using service = await startCapturing()
  const { api, app } = service
  const id = await capture(service, { subject: 'Hello' })
  app.db.run(`UPDATE emails SET extra = '{"whole":"own_return_path"}'`)
  const paths = [`captured-emails/${id}`, `emails/${id}/captured`].map((path) => `/v1/${path}`)
  for (const [scopes, status] of [
    [['emails:read'], 404],
    [['emails:read', 'inbound:read'], 200],
  ] as const) {
    const { body } = await api('POST', '/v1/api-keys', { name: 'Reader', scopes })
    const key = String(at(body, 'data', 'key'))
    for (const path of paths)
      expect([path, scopes, (await api('GET', path, undefined, { key })).status]).toEqual([path, scopes, status])
  }
})

test('of an email above 1 MiB the bodies are whole if only attachments are beyond, and marked if not', async () => {
  await using service = await startCapturing()
  const { api } = service
  const read = async (id: string) => at((await api('GET', `/v1/captured-emails/${id}`)).body, 'data')
  const file = { filename: 'a.bin', content: 'A'.repeat(2 * MiB), content_type: 'application/octet-stream' }
  const withFile = await capture(service, { html_body: '<p>Hi</p>', attachments: [file] })
  expect(await read(withFile)).toMatchObject({
    text: expect.stringMatching(/^Hello\.\s*$/),
    html: expect.stringMatching(/^<p>Hi<\/p>\s*$/),
    truncated: false,
    attachments: [{ filename: 'a.bin', size: 1.5 * MiB }],
  })
  const withText = await capture(service, { text_body: 'word '.repeat(300_000), html_body: '<p>Hi</p>' })
  expect(await read(withText)).toMatchObject({ html: null, truncated: true })
})

// Proves: email-33
test('an email is marked as read and unread, and has its content', async () => {
  await using service = await startCapturing()
  const { api } = service
  const id = await capture(service, {
    html_body: '<p>Hi</p>',
    headers: { 'X-Note': 'Zürich' },
    attachments: [
      { filename: 'a.html', content: btoa('<script>1</script>'), content_type: 'text/html' },
      { filename: 'ü.pdf', content: btoa('PDF'), content_type: 'application/pdf' },
    ],
  })
  const detail = await api('GET', `/v1/captured-emails/${id}`)
  expect(at(detail.body, 'data')).toMatchObject({
    id,
    read: false,
    mail_from: expect.stringMatching(/^b-.*@send\.sender\.test$/),
    text: expect.stringMatching(/^Hello\.\s*$/),
    html: expect.stringMatching(/^<p>Hi<\/p>\s*$/),
    truncated: false,
    attachments: [
      { filename: 'a.html', content_type: 'text/html', size: 18 },
      { filename: 'ü.pdf', content_type: 'application/pdf', size: 3 },
    ],
  })
  expect(at(detail.body, 'data', 'headers')).toContainEqual({ name: 'X-Note', value: 'Zürich' })

  const unread = async () => subjectsOf(await api('GET', '/v1/captured-emails?unread=true')).length
  expect(await unread()).toBe(1)
  expect(at((await api('PATCH', `/v1/captured-emails/${id}`, { read: true })).body, 'data', 'read')).toBe(true)
  expect([await unread(), subjectsOf(await api('GET', '/v1/captured-emails?unread=false')).length]).toEqual([0, 1])
  expect(at((await api('GET', `/v1/captured-emails/${id}`)).body, 'data', 'read')).toBe(true)
  await api('PATCH', `/v1/captured-emails/${id}`, { read: false })
  expect(await unread()).toBe(1)

  const file = (n: string) =>
    fetch(`${service.url}/v1/captured-emails/${id}/attachments/${n}`, {
      headers: { authorization: `Bearer ${service.key}` },
    })
  const script = await file('0')
  expect([script.headers.get('content-type'), script.headers.get('content-disposition'), await script.text()]).toEqual([
    'application/octet-stream',
    'attachment; filename="a.html"',
    '<script>1</script>',
  ])
  for (const n of ['2', '-1', '00', 'x']) expect([n, (await file(n)).status]).toEqual([n, 404])
})

// Proves: email-34
test('deletion removes captures, not emails; other accounts and system mail are never seen', async () => {
  await using service = await startCapturing()
  const { api } = service
  const first = await capture(service, { subject: 'First' })
  await capture(service, { subject: 'Second', to: ['bob@x.test', 'cy@y.test'] })
  const stranger = await service.newAccount()
  const key = await service.newKey([], stranger)
  const asStranger = (method: string, path: string, body?: unknown) => api(method, path, body, { key })
  expect(rowsOf(await asStranger('GET', '/v1/captured-emails'))).toEqual([])
  expect((await asStranger('DELETE', '/v1/captured-emails')).body).toEqual({ data: { deleted: 0 } })

  expect((await api('DELETE', `/v1/captured-emails/${first}`)).status).toBe(204)
  expect((await api('GET', `/v1/captured-emails/${first}`)).body).toMatchObject({ code: 'captured_email_not_found' })
  expect((await api('GET', `/v1/emails/${first}/captured`)).status).toBe(404)
  expect((await api('GET', `/v1/emails/${first}`)).status).toBe(200)
  expect(subjectsOf(await api('GET', '/v1/captured-emails'))).toEqual(['Second'])
  expect((await api('DELETE', '/v1/captured-emails')).body).toEqual({ data: { deleted: 1 } })
  expect(rowsOf(await api('GET', '/v1/captured-emails'))).toEqual([])
  expect(service.opened.captures.list({ limit: 10 })).toEqual([])
})

test('mail of the service itself, such as a reset of the password, has no row', async () => {
  await using service = await startCapturing({ TASSIS_SYSTEM_FROM: 'service@sender.test' })
  const { app, actor } = service
  await createTestUser(app, actor, 'ada@people.test', 'owner')
  app.db.run("UPDATE domains SET verified_at = 1 WHERE domain = 'sender.test'")
  await postForm(service.url, '/reset-password', { email: 'ada@people.test' })
  await eventually(() => service.opened.captures.list({ limit: 1 })[0])
  expect(rowsOf(await service.api('GET', '/v1/captured-emails'))).toEqual([])
})
