/**
 * @module The dashboard in a browser, for tests: a signed-in page with scripts on, the log of its requests, what it
 * reports, and the findings of axe.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { Browser, Page } from 'playwright-core'
import type { TestApi } from './api.ts'
import { BROWSER_TEST_MS, isChromiumAvailable, STEP_MS, startBrowser } from './browser.ts'
import { type BrowserSession, signIn } from './users.ts'

export interface DashboardPage extends AsyncDisposable {
  readonly page: Page
  /** URLs of all requests that left the browser, also those of frames; not those that a policy blocked. */
  readonly requested: readonly string[]
  /** Errors of the page's scripts. */
  readonly errors: readonly string[]
  /** Shows a path below /app and waits for its heading: loads the page the first time, then as a link on it does. */
  goTo(path: string): Promise<void>
  /** Loads the page at a path below /app, which knows nothing of before. */
  load(path: string): Promise<void>
  /** What our own page broke of its Content-Security-Policy; frames are not counted. */
  policyViolations(): Promise<string[]>
  /** Expects that no script of a stranger ran (they set `ran`), nothing left for another host, and nothing broke. */
  expectHarmless(): Promise<void>
}

export interface DashboardOptions {
  readonly width?: number
  /** By how much letters are larger than usual; default 1. */
  readonly zoom?: number
  /** A session of the user; default: a new one, without a code. */
  readonly session?: Pick<BrowserSession, 'cookie'>
}

const NOTE_VIOLATIONS = `
  window.policyViolations = []
  document.addEventListener('securitypolicyviolation', (event) =>
    window.policyViolations.push(event.violatedDirective + ' ' + event.blockedURI))`

/** Shows a screen as a link to it does, and waits until it has its heading. */
const follow = (path: string) => `new Promise((shown) => {
  const isSameScreen = location.pathname === new URL(${JSON.stringify(path)}, location.href).pathname
  const observer = new MutationObserver(() => {
    if (!document.querySelector('h1')) return
    observer.disconnect()
    shown()
  })
  observer.observe(document.querySelector('main'), { subtree: true, childList: true, characterData: true })
  history.pushState({}, '', ${JSON.stringify(path)})
  if (isSameScreen) shown()
})`

/** Waits for a heading. */
export const heading = (page: Page, name: string | RegExp) =>
  page.getByRole('heading', { name, exact: true }).first().waitFor()

/** Opens a window in which a user of `createTestUser` is signed in. */
export type OpenDashboard = (
  service: Pick<TestApi, 'url'>,
  email: string,
  options?: DashboardOptions,
) => Promise<DashboardPage>

/** Tests that share a browser, skipped where there is none. @param define gets what opens a window in it, and the browser */
export function describeInBrowser(name: string, define: (open: OpenDashboard, browser: () => Browser) => void): void {
  setDefaultTimeout(BROWSER_TEST_MS)
  describe.skipIf(!isChromiumAvailable())(name, () => {
    let browser: Browser
    beforeAll(async () => {
      browser = await startBrowser()
    })
    afterAll(() => browser?.close())
    define(
      (...args) => openDashboard(browser, ...args),
      () => browser,
    )
  })
}

async function openDashboard(
  browser: Browser,
  service: Pick<TestApi, 'url'>,
  email: string,
  { width = 1280, zoom = 1, session }: DashboardOptions = {},
): Promise<DashboardPage> {
  const { cookie } = session ?? (await signIn(service, email))
  const [name = '', value = ''] = cookie.split('=')
  const context = await browser.newContext({
    viewport: { width, height: 800 },
    colorScheme: 'light',
    locale: 'en-GB',
    timezoneId: 'UTC',
    reducedMotion: 'reduce',
  })
  context.setDefaultTimeout(STEP_MS)
  await context.addCookies([{ name, value, url: service.url }])
  const requested: string[] = []
  const errors: string[] = []
  context.on('requestfinished', (request) => requested.push(request.url()))
  context.on('requestfailed', (request) => {
    if (request.failure()?.errorText !== 'csp') requested.push(`${request.url()} ${request.failure()?.errorText}`)
  })
  const page = await context.newPage()
  page.on('pageerror', (error) => errors.push(String(error)))
  await page.addInitScript(NOTE_VIOLATIONS)
  const load = async (path: string) => {
    await page.goto(`${service.url}/app${path}`)
    await page.waitForSelector('h1')
    if (zoom !== 1) await page.evaluate(`document.documentElement.style.fontSize = '${100 * zoom}%'`)
  }
  const policyViolations = () => page.evaluate<string[]>('window.policyViolations')
  return {
    page,
    requested,
    errors,
    load,
    async goTo(path) {
      if (page.url() === 'about:blank') await load(path)
      else await page.evaluate(follow(`/app${path === '/' ? '' : path}`))
    },
    policyViolations,
    async expectHarmless() {
      expect(await page.evaluate('window.ran')).toBeUndefined()
      expect(errors).toEqual([])
      expect(await policyViolations()).toEqual([])
      expect(requested.filter((to) => !to.startsWith(service.url) && !/^(?:data|blob):/.test(to))).toEqual([])
    },
    [Symbol.asyncDispose]: () => context.close(),
  }
}

/** Presses keys of a sequence. Between two separate steps more time than a sequence may take can pass. */
export const pressInOneGo = (page: Page, ...keys: readonly string[]): Promise<unknown> =>
  Promise.all(keys.map((key) => page.keyboard.press(key)))

/** Lets the page and the documents in it do what they do by themselves. */
export const letPageRun = (page: Page): Promise<unknown> =>
  page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))')

let axeSource: string | undefined
/** The rules of axe that depend on colours; the others find the same in light and dark. */
const COLOUR_RULES = ['color-contrast', 'link-in-text-block']

/**
 * The findings of axe on a page as it is now, in light, then in dark mode: rule and elements. Other documents in frames
 * are not examined.
 */
export async function findAxeViolations(page: Page): Promise<string[]> {
  axeSource ??= readFileSync(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')
  // Scripts of the debugger are not subject to the policy of the page.
  if (await page.evaluate("typeof axe === 'undefined'")) await page.evaluate(axeSource)
  // Some colours change over some frames, in which no text is readable.
  await page.evaluate(END_TRANSITIONS)
  const found = await runAxe(page, {})
  await showColours(page, 'dark')
  const foundInDark = await runAxe(page, { runOnly: COLOUR_RULES })
  await showColours(page, 'light')
  return [...found, ...foundInDark.map((finding) => `dark: ${finding}`)]
}

const END_TRANSITIONS = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  for (const animation of document.getAnimations()) if (animation instanceof CSSTransition) animation.finish()
  done()
})))`

async function showColours(page: Page, colorScheme: 'light' | 'dark'): Promise<void> {
  await page.emulateMedia({ colorScheme })
  await page.waitForSelector(`html[data-mantine-color-scheme=${colorScheme}]`)
  await page.evaluate(END_TRANSITIONS)
}

/** Without frames, media, and what reports on passed rules need: that would double the time. */
const AXE_OPTIONS = { iframes: false, preload: false, resultTypes: ['violations'], selectors: false }

const runAxe = (page: Page, options: { readonly runOnly?: readonly string[] }): Promise<string[]> =>
  page.evaluate<string[]>(`axe.run(document, ${JSON.stringify({ ...AXE_OPTIONS, ...options })}).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html, any }) => html.slice(0, 120) + ' ' + any.map(({ message }) => message).join(' ')).join(' | ')))`)
