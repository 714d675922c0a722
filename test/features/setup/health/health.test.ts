import { expect, test } from 'bun:test'
import { createHttp } from '#app/http.ts'
import { type ApiResponse, at, createTestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createTestDisk } from '#test/support/disk.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const anonymous = { key: null }

const readReasons = ({ body }: ApiResponse): string[] =>
  (at(body, 'details') as { field: string }[]).map(({ field }) => field)

// Proves: http-21, http-22
test('a working service is healthy and ready, without credentials', async () => {
  await using service = await createTestApi()
  for (const path of ['/healthz', '/readyz']) {
    const { status, body } = await service.api('GET', path, undefined, anonymous)
    expect({ path, status, body }).toEqual({ path, status: 200, body: { status: 'ok' } })
  }
})

// Proves: http-21
test('low disk space makes the service unready, but not unhealthy, and the response reveals no path', async () => {
  await using service = await createTestApi({ disk: createTestDisk(() => true) })
  const answer = await service.api('GET', '/readyz', undefined, anonymous)
  expect({ status: answer.status, code: at(answer.body, 'code'), reasons: readReasons(answer) }).toEqual({
    status: 503,
    code: 'not_ready',
    reasons: ['disk'],
  })
  expect(answer.headers.get('retry-after')).toBe(String(at(answer.body, 'retry_after')))
  expect(JSON.stringify(answer.body)).not.toContain(service.dataDir)
  expect((await service.api('GET', '/healthz', undefined, anonymous)).status).toBe(200)
})

test('a disk that never responds makes the service unready within the time limit', async () => {
  const clock = new ManualClock()
  await using service = await createTestApi({ clock, disk: createTestDisk(() => new Promise(() => undefined)) })
  const asked = service.api('GET', '/readyz', undefined, anonymous)
  const answer = await eventually(async () => {
    clock.advance(1000)
    return Promise.race([asked, Bun.sleep(5).then(() => undefined)])
  })
  expect({ status: answer.status, reasons: readReasons(answer) }).toEqual({ status: 503, reasons: ['disk'] })
})

// Proves: http-22
test('a database that fails to write makes the service unready until it recovers', async () => {
  await using service = await createTestApi()
  const { app, api } = service
  app.db.run('PRAGMA query_only = ON')
  const answer = await api('GET', '/readyz', undefined, anonymous)
  expect({ status: answer.status, reasons: readReasons(answer) }).toEqual({ status: 503, reasons: ['database'] })
  app.db.run('PRAGMA query_only = OFF')
  expect((await api('GET', '/readyz', undefined, anonymous)).status).toBe(200)
})

test('frequent checks cause only one write', async () => {
  await using service = await createTestApi()
  const { app, api } = service
  const changes = () => app.db.query<{ n: number }, []>('SELECT total_changes() AS n').get()?.n ?? 0
  await api('GET', '/readyz', undefined, anonymous)
  const before = changes()
  for (let i = 0; i < 20; i++) expect((await api('GET', '/readyz', undefined, anonymous)).status).toBe(200)
  expect(changes()).toBe(before)
})

test('a service that begins to stop is unready immediately', async () => {
  await using service = await createTestApi()
  let isStopping = false
  const http = createHttp(service.opened, { isStopping: () => isStopping })
  const ready = () => http.fetch(new Request('http://localhost/readyz'))
  expect((await ready()).status).toBe(200)
  isStopping = true
  const answer = await ready()
  expect({ status: answer.status, reasons: at(await answer.json(), 'details') }).toEqual({
    status: 503,
    reasons: [{ field: 'service', message: 'is stopping' }],
  })
})
