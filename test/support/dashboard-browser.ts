/** @module Signs in to the dashboard by its pages, for tests with several tabs: records what the browser did. */
import type { Browser, Page } from 'playwright-core'
import { STEP_MS } from './browser.ts'
import { PASSWORD } from './users.ts'

export interface DashboardTab extends AsyncDisposable {
  readonly page: Page
  /** URLs that the tab requested, in order. */
  readonly requested: readonly string[]
  /** Violations of the Content-Security-Policy, and errors of scripts. */
  readonly complaints: readonly string[]
  /** Another tab of the same browser, with the same session. */
  openTab(): Promise<Page>
}

/** Signs in as a user does. */
export async function signInToDashboard(browser: Browser, url: string, email: string): Promise<DashboardTab> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    locale: 'en-GB',
    reducedMotion: 'reduce',
  })
  context.setDefaultTimeout(STEP_MS)
  const requested: string[] = []
  const complaints: string[] = []
  context.on('request', (request) => requested.push(request.url()))
  context.on('console', (message) => {
    if (/Content Security Policy/i.test(message.text())) complaints.push(message.text())
  })
  context.on('weberror', (error) => complaints.push(String(error.error())))
  const page = await context.newPage()
  await page.goto(`${url}/login`)
  await page.fill('#email', email)
  await page.fill('#password', PASSWORD)
  await page.click('main button')
  await page.waitForURL(/\/app/)
  return {
    page,
    requested,
    complaints,
    openTab: () => context.newPage(),
    [Symbol.asyncDispose]: () => context.close(),
  }
}
