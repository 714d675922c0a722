/** @module Tracked HTML in Chromium: where links lead, and how the page looks. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { Browser } from 'playwright-core'
import { addTracking, type Tracking } from '#features/sending/tracking/rewrite.ts'
import { readLink } from '#features/sending/tracking/tokens.ts'
import { randomBytes } from '#platform/ids.ts'
import { isChromiumAvailable, startBrowser } from '#test/support/browser.ts'

// A browser starts slowly on a busy machine.
setDefaultTimeout(120_000)

const BASE = 'http://links.sender.test'
const tracking: Tracking = {
  recipient: { account: 7, recipientId: 7, day: 20_527 },
  key: randomBytes(32),
  baseUrl: BASE,
  ownUrls: [BASE],
  parts: { opens: true, clicks: true },
}
const PIXEL = Uint8Array.fromBase64('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==')

/** A page that shows the HTML of mails, and the requested URLs of this service. */
async function openMail(browser: Browser, width = 1280) {
  const context = await browser.newContext({ viewport: { width, height: 800 } })
  const page = await context.newPage()
  let html = ''
  const loaded: string[] = []
  await page.route('**/*', (route) => {
    const url = route.request().url()
    if (!url.startsWith(BASE)) return route.fulfill({ contentType: 'text/html; charset=utf-8', body: html })
    loaded.push(url)
    return route.fulfill({ contentType: 'image/gif', body: Buffer.from(PIXEL) })
  })
  return {
    page,
    loaded,
    show: async (body: string) => {
      html = body
      await page.goto('http://mail.test/')
    },
    [Symbol.asyncDispose]: () => context.close(),
  }
}

/** The targets of the links on the page, as the browser reads them. */
const linksOf = ({ page }: Awaited<ReturnType<typeof openMail>>): Promise<string[]> =>
  page.evaluate(`[...document.querySelectorAll('a')].map((a) => a.href)`)

const STARTS = [
  'https://a.test',
  'http://a.test/',
  'HTTPS://b\u00fccher.test/p?',
  'https://u:p@a.test:81/x#',
  ' https://A.test/',
]
const PIECES = [
  ...'&amp; &amp & &copy &copy; &lt &notin &notin; &#38; &#38 &#x26 &#128; &#0; &#xD800; &Tab; &NewLine;'.split(' '),
  ...'&nbsp; &uuml= &euro; &quot &apos; &ngE; &sol; &colon; &ampamp; &orderId=1 &current=1 &region=eu'.split(' '),
  ..."&not=1 = a Z %20 %zz % %00 %2F ? # / \\ : @ [ ] { } | ^ ` ' < > .. /./ + ; , ~ &plus;".split(' '),
  ...' \t\u00fc\u{1f600}\u00a0\u3000\u2028\ufeff\u00ad\u202e\0\x01\x7f',
  '\r\n',
]

/** Generates `href` values; the same each time. */
function hrefs(count: number): string[] {
  let state = 42
  const below = (n: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return (state >>> 8) % n
  }
  const one = (of: readonly string[]): string => of[below(of.length)] ?? ''
  return Array.from(
    { length: count },
    () => one(STARTS) + Array.from({ length: below(12) }, () => one(PIECES)).join(''),
  )
}

describe.skipIf(!isChromiumAvailable())('in a browser', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await startBrowser()
  })
  afterAll(() => browser?.close())

  // Proves: track-14
  test('a tracked link leads to its original target, and no other link is changed', async () => {
    await using mail = await openMail(browser)
    const others = ['mailto:a@b.test', '#top', '/a', '//a.test/', 'https:/a.test/', 'javascript:0', 'data:,x', '']
    const given = [...others, ...hrefs(1500)]
    const html = `<base href="http://base.test/dir/">${given.map((href) => `<a href="${href}">x</a>`).join('\n')}`
    await mail.show(html)
    const before = await linksOf(mail)
    await mail.show(addTracking(html, tracking))
    const after = await linksOf(mail)
    const targets = after.map((href) => {
      const [, token = '', target = ''] = /\/t\/c\/([^/]+)\/([^/]+)$/.exec(href) ?? []
      const link = readLink(tracking.key, token, target)
      return link ? (URL.parse(link.url)?.href ?? '') : href
    })
    // A browser parses the location of a redirect again, as it parses a link.
    const asBrowser = (urls: string[]) => urls.map((url) => (URL.canParse(url) ? new URL(url).href : url))
    expect(await mail.page.evaluate(asBrowser, targets)).toEqual(before)
    expect(after.slice(0, others.length)).toEqual(before.slice(0, others.length))
    expect(after.filter((href) => href.startsWith(`${BASE}/t/c/`))).toHaveLength(1000)
  })

  // Proves: track-14
  test('the pixel is loaded, shifts nothing and leaves no gap, whatever style images have', async () => {
    await using mail = await openMail(browser, 390)
    const styles = [
      '',
      'img{width:100%!important;height:auto!important}',
      '@media (max-width:600px){img{width:100%!important;max-width:none!important;height:auto!important}}',
      'img{padding:20px;margin:10px;border:3px solid red!important}',
      'img{min-width:200px;min-height:100px!important}',
      '*{padding:5px!important;margin:9px!important}',
      'img{display:none!important}',
    ]
    const places = (): Promise<string> =>
      mail.page.evaluate(
        `JSON.stringify([...document.querySelectorAll('table, td, p')].map((e) => e.getBoundingClientRect()))`,
      )
    const seen: unknown[] = []
    for (const style of styles) {
      const html = `<!doctype html><style>${style}</style><body><table width="100%"><tr><td><p>Hello</p></td></tr></table><p>End</p></body>`
      await mail.show(html)
      const before = await places()
      await mail.show(addTracking(html, tracking))
      const size = await mail.page.evaluate(
        `(({ width, height }) => [width, height])(document.images[0].getBoundingClientRect())`,
      )
      seen.push([style, size, (await places()) === before])
    }
    expect(seen).toEqual(styles.map((style) => [style, [1, 1], true]))
    expect(mail.loaded).toHaveLength(styles.length)
  })
})
