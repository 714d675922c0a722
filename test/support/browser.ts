/**
 * @module Debian's Chromium, headless, for tests of pages: driven by playwright-core, which brings no browser. Each
 * test has a browser without cookies and cache, and with scripts disabled, because public pages must work without them.
 */
import { expect } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'
import { eventually as eventuallyWithin } from './app.ts'

/** The headless shell has the same engine without the rest of the browser, and needs three quarters of the CPU time. */
const EXECUTABLES = ['/usr/lib/chromium/chromium-headless-shell', '/usr/bin/chromium']
/**
 * With few cores, V8 loses time by its helper threads and by compiling what a short visit never calls, and our pages need
 * only one renderer process.
 */
const ARGUMENTS = ['--js-flags=--single-threaded --max-lazy', '--renderer-process-limit=1']
/** Time limit of a step, such as the start of the browser: most need less than a second, on a busy machine half a minute. */
export const STEP_MS = 120_000
/** Time limit of a test with a browser. Bun ends the browser of a test that exceeds it, so later tests would fail too. */
export const BROWSER_TEST_MS = 400_000

/** `eventually` of `app.ts` with the time limit of a step. */
export const eventually = <T>(condition: () => T | undefined | false | Promise<T | undefined | false>): Promise<T> =>
  eventuallyWithin(condition, STEP_MS)

/**
 * Whether tests with a browser can run. Logs the reason once if not, unless the environment requires the tests (`CI` or
 * `REQUIRE_CHROMIUM` is `true`): then they run, and fail without it.
 */
export function isChromiumAvailable(): boolean {
  if (process.env['CI'] === 'true' || process.env['REQUIRE_CHROMIUM'] === 'true') return true
  if (EXECUTABLES.some((path) => existsSync(path))) return true
  console.warn('Tests with a browser are skipped: the package chromium-headless-shell is not installed')
  return false
}

/** Starts the browser; dispose of it with `await using`. @param args further options of its command line */
export function startBrowser(args: readonly string[] = []): Promise<Browser> {
  const executablePath = EXECUTABLES.find((path) => existsSync(path))
  if (executablePath === undefined) throw new Error('the package chromium-headless-shell is not installed')
  // The sandbox needs a setuid helper or user namespaces; only pages of the service under test are opened.
  return chromium.launch({
    executablePath,
    chromiumSandbox: false,
    timeout: STEP_MS,
    args: [...ARGUMENTS, ...args],
  })
}

export interface Screen {
  readonly name: string
  readonly width: number
  readonly height: number
  readonly colours: 'light' | 'dark'
}

/** The widths at which pages are tested, in light and dark mode. */
export const SCREENS: readonly Screen[] = [
  { name: 'phone', width: 390, height: 844, colours: 'light' },
  { name: 'phone-dark', width: 390, height: 844, colours: 'dark' },
  { name: 'desktop', width: 1280, height: 800, colours: 'light' },
  { name: 'desktop-dark', width: 1280, height: 800, colours: 'dark' },
]

export interface OpenPage extends AsyncDisposable {
  readonly page: Page
  /** URLs that the page requested, in order. */
  readonly requested: readonly string[]
  /** Errors and warnings of the browser. */
  readonly complaints: readonly string[]
  /** Saves a screenshot of the whole page when the variable SCREENSHOTS names a folder. */
  picture(name: string): Promise<void>
}

/** @param locale language that the browser requests (BCP 47) */
export async function openPage(browser: Browser, screen: Screen, locale = 'en-GB'): Promise<OpenPage> {
  const context = await browser.newContext({
    viewport: { width: screen.width, height: screen.height },
    colorScheme: screen.colours,
    javaScriptEnabled: false,
    locale,
  })
  context.setDefaultTimeout(STEP_MS)
  const page = await context.newPage()
  const requested: string[] = []
  const complaints: string[] = []
  page.on('request', (request) => requested.push(request.url()))
  page.on('console', (message) => complaints.push(message.text()))
  return {
    page,
    requested,
    complaints,
    async picture(name) {
      const folder = process.env['SCREENSHOTS']
      if (folder) await page.screenshot({ path: join(folder, `${name}-${screen.name}.png`), fullPage: true })
    },
    [Symbol.asyncDispose]: () => context.close(),
  }
}

/** A visible text: its colour and the colour behind it. */
export interface SeenText {
  readonly text: string
  /** WCAG 2.2, "contrast ratio": 1 to 21. */
  readonly contrast: number
}

// Runs in the page, where this project's types do not apply.
const SEEN_TEXTS = `(() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number)
  const luminance = (colour) => {
    const [r, g, b] = channels(colour).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor
      if ((channels(colour)[3] ?? 1) === 1) return colour
    }
    return getComputedStyle(document.documentElement).colorScheme.includes('dark') && matchMedia('(prefers-color-scheme: dark)').matches ? 'rgb(18, 18, 18)' : 'rgb(255, 255, 255)'
  }
  const contrast = (a, b) => {
    const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x)
    return (light + 0.05) / (dark + 0.05)
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  const seen = []
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim()
    const element = walker.currentNode.parentElement
    if (text !== '') seen.push({ text, contrast: contrast(getComputedStyle(element).color, behind(element)) })
  }
  return seen
})()`

/** All texts of a page, in order. */
export const seenTexts = (page: Page): Promise<SeenText[]> => page.evaluate<SeenText[]>(SEEN_TEXTS)

const readOverflowPx = (page: Page): Promise<number> =>
  page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth')

/** Scripts change the layout some frames after the size of the window, on a busy machine some seconds. */
const LAYOUT_MS = 20_000

/** Pixels by which the page is wider than the window, once its layout is settled: 0 without horizontal scrolling. */
export async function overflowPx(page: Page): Promise<number> {
  let tooWide = await readOverflowPx(page)
  for (const until = performance.now() + LAYOUT_MS; tooWide > 0 && performance.now() < until; ) {
    await page.waitForTimeout(50)
    tooWide = await readOverflowPx(page)
  }
  return tooWide
}

/** WCAG 2.2 §1.4.3 for text, §2.5.5 for buttons and fields. */
const MIN_CONTRAST = 4.5
const MIN_TARGET_PX = 44

/** What a page behind a link of a mail shows, and its problems for sight and for motor control. */
export async function inspectTextPage(page: Page) {
  const texts = await seenTexts(page)
  const targets = await page.locator('button, input:not([type=hidden])').all()
  const boxes = await Promise.all(targets.map((target) => target.boundingBox()))
  return {
    title: await page.title(),
    language: await page.locator('html').getAttribute('lang'),
    headings: await page.getByRole('heading').allTextContents(),
    buttons: await page.getByRole('button').allTextContents(),
    overflowPx: await overflowPx(page),
    faint: texts.filter(({ contrast }) => contrast < MIN_CONTRAST),
    small: boxes.filter((box) => box === null || box.height < MIN_TARGET_PX || box.width < MIN_TARGET_PX),
  }
}

/**
 * The same on the narrowest phone with letters twice as large (WCAG 2.2 §1.4.10, §1.4.4); afterwards restores the page.
 * @param picture file name of a screenshot
 */
export async function narrowOverflowPx(
  page: Page,
  picture: () => Promise<void> = async () => undefined,
): Promise<number> {
  const before = page.viewportSize()
  if (!before) throw new Error('the page has no size of its own')
  await page.setViewportSize({ width: 320, height: 640 })
  await page.evaluate('document.documentElement.style.fontSize = "200%"')
  await picture()
  const tooWide = await overflowPx(page)
  await page.evaluate('document.documentElement.style.fontSize = ""')
  await page.setViewportSize(before)
  return tooWide
}

/** Shows a page on another screen. */
export async function showOn(page: Page, { width, height, colours }: Screen): Promise<void> {
  await page.setViewportSize({ width, height })
  await page.emulateMedia({ colorScheme: colours })
}

/**
 * What a page behind a link of a mail shows on every screen, which must be the same, and its problems there and on the
 * narrowest phone. Afterwards it is shown on the first screen.
 */
export async function inspectOnScreens({ page, picture }: OpenPage, name: string) {
  const looks: Awaited<ReturnType<typeof inspectTextPage>>[] = []
  for (const screen of SCREENS) {
    await showOn(page, screen)
    await picture(`${name}-on-${screen.name}`)
    looks.push(await inspectTextPage(page))
  }
  await showOn(page, SCREENS[0] as Screen)
  const narrowPx = await narrowOverflowPx(page, () => picture(`${name}-on-narrow`))
  const [look] = looks as [(typeof looks)[number]]
  expect([name, looks]).toEqual([name, SCREENS.map(() => look)])
  return { ...look, narrowPx }
}
/** Of `inspectOnScreens`, for a page in English. */
export const NO_PROBLEMS = { language: 'en', overflowPx: 0, narrowPx: 0, faint: [], small: [] }
