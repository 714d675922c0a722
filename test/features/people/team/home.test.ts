import { expect, test } from 'bun:test'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { createEmailApi } from '#test/support/email-api.ts'

/** The Accept header of a browser that opens an address (Chromium, Firefox). */
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8'

const open = (url: string, headers: Record<string, string>, method = 'GET') =>
  fetch(`${url}/`, { method, headers, redirect: 'manual' })

const redirectTarget = async ({ url }: Pick<TestApi, 'url'>, headers: Record<string, string>, method = 'GET') => {
  const { status, headers: answered } = await open(url, headers, method)
  return [status, answered.get('location'), answered.get('vary')]
}

// Proves: user-16
test('a browser that opens a server is redirected to sign in', async () => {
  await using service = await createEmailApi()
  service.app.db.run(
    "UPDATE domains SET tracking_domain = 'links.sender.test', tracking_verified_at = 1 WHERE verified_at IS NOT NULL",
  )
  expect(await redirectTarget(service, { accept: BROWSER })).toEqual([303, '/login', 'accept'])
  expect(await redirectTarget(service, { accept: BROWSER }, 'HEAD')).toEqual([303, '/login', 'accept'])
  // No one is redirected to sign in under another party's name.
  expect(await redirectTarget(service, { accept: BROWSER, host: 'links.sender.test' })).toEqual([404, null, null])
})

// Proves: user-16
test('a browser that opens a capture server is led to captured mail, with links to documentation and signing in', async () => {
  await using service = await createTestApi({
    settings: { TASSIS_DELIVERY: 'capture', TASSIS_HTTP_ADDR: '127.0.0.1:0' },
  })
  expect(await redirectTarget(service, { accept: BROWSER })).toEqual([303, '/dev/captured', 'accept'])
  const text = await (await fetch(`${service.url}/dev/captured`)).text()
  const links = [...text.matchAll(/href="(\/[^"]*)"/g)].map(([, path]) => `${path}`)
  const answers = links.map(async (path) => [path, (await fetch(`${service.url}${path}`)).status])
  expect(await Promise.all(answers)).toEqual([
    ['/docs', 200],
    ['/login', 200],
  ])
})

// Proves: user-16
test('programs get the same response as at any unknown address', async () => {
  await using service = await createTestApi()
  const answerTo = async (headers: Record<string, string>) => {
    const response = await open(service.url, headers)
    return [response.status, await response.json()]
  }
  const message = 'No such route; /docs describes all routes.'
  const refusal = { code: 'route_not_found', message, type: 'not_found' }
  const body = { ...refusal, error: { ...refusal, docs_url: null }, request_id: 'home-1' }
  for (const accept of ['*/*', 'application/json', ''])
    expect([accept, await answerTo({ accept, 'x-request-id': 'home-1' })]).toEqual([accept, [404, body]])
})
