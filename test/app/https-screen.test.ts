import { expect, test } from 'bun:test'
import { createScreen } from '#app/certificates/screen.ts'
import { createHttp } from '#app/http.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTestAccount, createTestApp, type TestApp } from '#test/support/app.ts'

const SETTINGS = {
  TASSIS_HTTPS_ADDR: '0.0.0.0:443',
  TASSIS_HTTP_ADDR: '0.0.0.0:80',
  TASSIS_PUBLIC_URL: 'https://mail.tassis.test',
  TASSIS_HOSTNAME: 'mx.tassis.test',
}

async function startWithTrackingHost(settings: Readonly<Record<string, string>> = {}): Promise<TestApp> {
  const given = await createTestApp({ settings: { ...SETTINGS, ...settings } })
  const { app } = given
  const { domain } = await createDomain(app, await createTestAccount(app), 'customer.test')
  app.db.run('UPDATE domains SET tracking_domain = ?, tracking_verified_at = 1, verified_at = 1 WHERE id = ?', [
    'links.customer.test',
    domain.id,
  ])
  return given
}

/** URL, whether TLS, whether from a trusted proxy, and what happens. */
type Request = readonly [url: string, isTls: boolean, isProxied: boolean, expected: string]
const REQUESTS: readonly (readonly [settings: Readonly<Record<string, string>>, requests: readonly Request[]])[] = [
  [
    {},
    [
      ['http://mail.tassis.test/v1/emails?limit=5', false, false, 'https://mail.tassis.test/v1/emails?limit=5'],
      ['http://links.customer.test/t/c/x', false, false, 'https://links.customer.test/t/c/x'],
      ['http://stranger.test//evil.test/x', false, false, 'https://mail.tassis.test//evil.test/x'],
      ['http://192.0.2.1/', false, false, 'https://mail.tassis.test/'],
      ['http://192.0.2.1/healthz', false, false, 'passes'],
      ['http://192.0.2.1/readyz', false, false, 'passes'],
      ['http://any.test/.well-known/acme-challenge/x', false, false, 'passes'],
      ['http://mail.tassis.test/v1/emails', false, true, 'passes'],
      ['http://mail.tassis.test/v1/emails', true, false, 'passes'],
      ['http://mx.tassis.test/app', true, false, 'passes'],
      ['http://127.0.0.1/app', true, false, 'passes'],
      ['http://[::1]/app', true, false, 'passes'],
      ['http://links.customer.test/t/c/x', true, false, 'passes'],
      ['http://LINKS.customer.test./app', true, false, 'not found'],
      ['http://links.customer.test/tx', true, false, 'not found'],
      ['http://stranger.test/v1/emails', true, false, 'not found'],
    ],
  ],
  [{ TASSIS_HTTP_ADDR: '127.0.0.1:8080' }, [['http://127.0.0.1:8080/v1/emails', false, false, 'passes']]],
  [{ TASSIS_HTTP_ADDR: '[::1]:8080' }, [['http://[::1]:8080/v1/emails', false, false, 'passes']]],
  [
    { TASSIS_PUBLIC_URL: 'https://mail.tassis.test:8443' },
    [['http://x/', false, false, 'https://mail.tassis.test:8443/']],
  ],
  [{ TASSIS_PUBLIC_URL: 'http://mail.tassis.test' }, [['http://mail.tassis.test/', false, false, 'passes']]],
  [{ TASSIS_HTTPS_ADDR: '' }, [['http://mail.tassis.test/', false, false, 'passes']]],
]

// Proves: certificate-4
test.each(REQUESTS)('requests are redirected, not found or pass, with %o', async (settings, requests) => {
  await using given = await startWithTrackingHost(settings)
  const screen = createScreen(given.app)
  const found = requests.map(([url, isTls, isProxied]): Request => {
    const screening = screen?.({ url: new URL(url), isTls, isProxied })
    const result = screening && ('redirectTo' in screening ? screening.redirectTo : 'not found')
    return [url, isTls, isProxied, result ?? 'passes']
  })
  expect(found).toEqual([...requests])
})

// Proves: certificate-4
test('over HTTP a request is redirected with its method, before anything reads its key or body', async () => {
  await using given = await startWithTrackingHost()
  const http = createHttp(given.opened)
  const { port } = http.listen('127.0.0.1', 0)
  try {
    const response = await fetch(`http://127.0.0.1:${port}/v1/emails`, {
      method: 'POST',
      body: '{',
      headers: { authorization: 'Bearer wrong' },
      redirect: 'manual',
    })
    expect([response.status, response.headers.get('location'), await response.text()]).toEqual([
      308,
      'https://mail.tassis.test/v1/emails',
      '',
    ])
    expect(response.headers.get('x-request-id')).toBeTruthy()
    expect((await fetch(`http://127.0.0.1:${port}/healthz`, { redirect: 'manual' })).status).toBe(200)
  } finally {
    await http.stop()
  }
})
