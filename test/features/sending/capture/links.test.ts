import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { findLinks } from '#features/sending/capture/check-links.ts'
import { randomBytes } from '#platform/ids.ts'
import { at, type TestApi } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { cpuMs } from '#test/support/cpu-time.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { capture, startCapturing } from './fixture.ts'

setDefaultTimeout(120_000)

const trackingKey = randomBytes(32)
const find = async (html: string | null, rest: { text?: string; unsubscribeField?: string } = {}) =>
  (
    await findLinks(
      { html, text: rest.text ?? null, unsubscribeField: rest.unsubscribeField ?? '' },
      { trackingKeys: [trackingKey], isOwnHost: (host) => host === 'mail.own.test' },
    )
  ).map(({ url, skipReason }) => `${skipReason === undefined ? '' : 'skipped '}${url}`)

// Proves: email-35
describe('the links of a message', () => {
  test('are those to the web, each once, without what may unsubscribe and our own pages', async () => {
    const html = `<a href="https://a.test/?x=1&amp;y=2">A</a> <a href=" HTTPS://b.test/
">B</a> <a href="https://a.test/?x=1&amp;y=2">again</a>
      <a href="mailto:x@y.test">mail</a> <a href="javascript:alert(1)">js</a> <a href="#top">top</a> <a href="/x">relative</a>
      <a href="https://c.test/bye">Unsubscribe <b>here</b></a> <a href="https://c.test/opt-out?u=1">x</a>
      <a href="https://d.test/list">ok</a> <a href="https://mail.own.test/u/token">x</a>
      <a href="https://e.test/1" title="Newsletter abbestellen"><img src="https://picture.test/"></a>
      <map><area href="https://f.test/"></map><link href="https://style.test/">`
    expect(await find(html, { unsubscribeField: '<https://d.test/list>, <mailto:u@d.test>' })).toEqual([
      'https://a.test/?x=1&y=2',
      'HTTPS://b.test/',
      'skipped https://c.test/bye',
      'skipped https://c.test/opt-out?u=1',
      'skipped https://d.test/list',
      'skipped https://mail.own.test/u/token',
      'skipped https://e.test/1',
      'https://f.test/',
    ])
  })

  test('are skipped however the own host and the words for unsubscribing are written', async () => {
    const own = ['https://mail.own.test./x', 'https://MAIL.own.test:8443/x', 'http://u:p@mail.own.test:80/x']
    const words = ['https://a.test/%75nsub%73cribe', 'https://a.test/%ff%75nsubscribe', 'https://a.test/?do=opt+out']
    const others = ['https://mail.own.test.a.test/%zz', 'https://a.test/%D0%BF']
    const html = [...own, ...words, ...others].map((url) => `<a href="${url}">x</a>`).join('')
    expect(await find(html)).toEqual([...[...own, ...words].map((url) => `skipped ${url}`), ...others])
  })

  test('that unsubscribe in one place are skipped in all', async () => {
    expect(await find('<a href="https://a.test/1">Shop</a><a href="https://a.test/1">Unsubscribe</a>')).toEqual([
      'skipped https://a.test/1',
    ])
  })

  test('are found in the text of a message without HTML', async () => {
    const text = 'See https://a.test/x. Or (http://b.test/y), <https://c.test/z>\nhttps://a.test/unsubscribe/1'
    expect(await find(null, { text })).toEqual([
      'https://a.test/x',
      'http://b.test/y',
      'https://c.test/z',
      'skipped https://a.test/unsubscribe/1',
    ])
  })

  test('of a hostile message are found in linear time', async () => {
    const startedAt = cpuMs()
    for (const html of [
      '</x>'.repeat(200_000),
      '<a href="'.repeat(100_000),
      '<a href="https://a.test/">'.repeat(30_000),
      '<b>'.repeat(2500) + '</x>'.repeat(200_000),
    ])
      await find(html)
    await find(null, { text: 'https://'.repeat(100_000) })
    expect(cpuMs() - startedAt).toBeLessThan(2000)
  })
})

interface Checked {
  readonly url: string
  readonly result: string
  readonly status: number | null
  readonly final_url: string | null
  readonly reason: string | null
}

/** A web server whose paths behave as they are called, and the requests that it got. */
function startWeb() {
  const requests: string[] = []
  let release: () => void = () => undefined
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    // No limit for a response that a test holds back.
    idleTimeout: 0,
    async fetch({ method, url }) {
      const { pathname } = new URL(url)
      requests.push(`${method} ${pathname}`)
      const redirect = (location: string) => new Response(null, { status: 302, headers: { location } })
      switch (pathname) {
        case '/missing':
          return new Response('', { status: 404 })
        case '/no-head':
          return new Response('', { status: method === 'HEAD' ? 405 : 200 })
        case '/moved':
          return redirect('/fine')
        case '/loop':
          return redirect('/loop')
        case '/hop':
          return redirect('/unsubscribe?id=1')
        case '/to-port-25':
          return redirect('http://127.0.0.1:25/')
        case '/slow':
          await released
      }
      return new Response('fine')
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    requests,
    release,
    [Symbol.asyncDispose]: () => server.stop(true),
  }
}

/** On a clock that stands, so that no request of a check takes too long and no rate recovers. */
const startService = (settings: Readonly<Record<string, string>>): Promise<TestApi> =>
  startCapturing({ TASSIS_PUBLIC_URL: 'http://mail.own.test', ...settings }, { clock: new ManualClock() })

const captureHtml = (service: TestApi, html: string, more: Readonly<Record<string, unknown>> = {}): Promise<string> =>
  capture(service, { html_body: html, ...more })

const toLinks = (base: string, ...paths: readonly string[]) =>
  paths.map((path) => `<a href="${base}${path}">x</a>`).join('')

// Proves: email-35
describe('the check of links', () => {
  test('reports what works, what redirects and what does not, and never requests what may unsubscribe', async () => {
    await using web = startWeb()
    await using service = await startService({ TASSIS_ALLOW_PRIVATE_NETWORKS: 'loopback' })
    const paths = ['/fine#part', '/missing', '/no-head', '/moved', '/loop', '/hop', '/to-port-25', '/unsubscribe']
    const id = await captureHtml(service, `${toLinks(web.url, ...paths)}${toLinks('http://127.0.0.1:1', ':bad')}`)
    const { status, body } = await service.api('POST', `/v1/captured-emails/${id}/check-links`)
    expect(status).toBe(200)
    const links = at(body, 'data', 'links') as readonly Checked[]
    const shown = links
      .slice(0, 8)
      .map(({ url, result, status: last, final_url: end }) => [
        url.slice(web.url.length),
        result,
        last,
        end?.replace(web.url, '') ?? null,
      ])
    expect(shown).toEqual([
      ['/fine#part', 'ok', 200, null],
      ['/missing', 'broken', 404, null],
      ['/no-head', 'ok', 200, null],
      ['/moved', 'redirected', 200, '/fine'],
      ['/loop', 'broken', null, null],
      ['/hop', 'skipped', 302, '/unsubscribe?id=1'],
      ['/to-port-25', 'skipped', null, 'http://127.0.0.1:25/'],
      ['/unsubscribe', 'skipped', null, null],
    ])
    expect(links[8]).toMatchObject({ result: 'skipped', reason: expect.stringContaining('not valid') })
    expect(web.requests.filter((request) => request.includes('unsubscribe'))).toEqual([])
    expect(web.requests).toContain('GET /no-head')
    expect(web.requests.filter((request) => request.endsWith('/loop'))).toHaveLength(6)
  })

  test('requests nothing in private networks, and no page of this service', async () => {
    await using web = startWeb()
    await using service = await startService({
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'false',
    })
    service.app.db.run("UPDATE domains SET tracking_domain = 'click.sender.test'")
    const port = web.url.split(':').at(-1)
    const id = await captureHtml(
      service,
      toLinks(
        '',
        web.url,
        `http://localhost:${port}/`,
        'http://[::1]/',
        'http://169.254.169.254/',
        'http://mail.own.test/x',
        'http://mail.own.test.:81/x',
        'http://click.sender.test/x',
      ),
    )
    const { body } = await service.api('POST', `/v1/captured-emails/${id}/check-links`)
    const links = at(body, 'data', 'links') as readonly Checked[]
    expect(links.map(({ result }) => result)).toEqual(Array.from({ length: 7 }, () => 'skipped'))
    expect(links.slice(4).map(({ reason }) => reason)).toEqual(
      Array.from({ length: 3 }, () => expect.stringContaining('page of this service')),
    )
    expect(web.requests).toEqual([])
  })

  test('of a tracked link requests its target and counts no click', async () => {
    await using web = startWeb()
    await using service = await startService({
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'loopback',
    })
    // Mail of a domain that is not verified has no tracked links.
    service.app.db.run('UPDATE domains SET verified_at = 1')
    const id = await captureHtml(service, toLinks(web.url, '/fine'), { tracking: true })
    const detail = await service.api('GET', `/v1/captured-emails/${id}`)
    expect(at(detail.body, 'data', 'html')).toContain('/t/c/')
    const { body } = await service.api('POST', `/v1/captured-emails/${id}/check-links`)
    expect(at(body, 'data', 'links')).toMatchObject([{ url: `${web.url}/fine`, result: 'ok' }])
    expect(web.requests).toEqual(['HEAD /fine'])
    expect(at((await service.api('GET', `/v1/emails/${id}/links`)).body, 'data')).toEqual([])
  })

  test('checks at most 50 links, and runs once at a time for an account', async () => {
    await using web = startWeb()
    await using service = await startService({ TASSIS_ALLOW_PRIVATE_NETWORKS: 'loopback' })
    const many = await captureHtml(service, toLinks(web.url, ...Array.from({ length: 60 }, (_, n) => `/${n}`)))
    const slow = await captureHtml(service, toLinks(web.url, '/slow'))
    const running = service.api('POST', `/v1/captured-emails/${slow}/check-links`)
    await eventually(() => web.requests[0])
    const second = await service.api('POST', `/v1/captured-emails/${many}/check-links`)
    expect([second.status, at(second.body, 'code')]).toEqual([429, 'link_check_running'])
    web.release()
    expect((await running).status).toBe(200)
    const { body } = await service.api('POST', `/v1/captured-emails/${many}/check-links`)
    expect([at(body, 'data', 'truncated'), (at(body, 'data', 'links') as unknown[]).length]).toEqual([true, 50])
    expect(web.requests).toHaveLength(51)
  })

  test('runs at most ten times a minute for an account', async () => {
    await using service = await startService({ TASSIS_ALLOW_PRIVATE_NETWORKS: 'false' })
    const id = await captureHtml(service, '<b>'.repeat(6000))
    const checks = []
    for (let n = 0; n < 11; n++) checks.push(await service.api('POST', `/v1/captured-emails/${id}/check-links`))
    expect(checks.map(({ status }) => status)).toEqual([...Array(10).fill(200), 429])
    expect(at(checks[0]?.body, 'data', 'truncated')).toBe(true)
    expect(at(checks[10]?.body, 'code')).toBe('rate_limited')
    expect(Number(checks[10]?.headers.get('retry-after'))).toBeGreaterThan(0)
  })
})
