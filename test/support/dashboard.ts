/** @module The dashboard in Chromium, for tests: a signed-in user, and a record of what the browser did. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { PASSWORD } from './users.ts'

const AXE = readFileSync(join(import.meta.dir, '../../node_modules/axe-core/axe.min.js'), 'utf8')

export interface DashboardTab extends AsyncDisposable {
  readonly page: Page
  /** URLs that the tab requested, in order. */
  readonly requested: readonly string[]
  /** Violations of the Content-Security-Policy, and errors of scripts. */
  readonly complaints: readonly string[]
  /** Another tab of the same browser, with the same session. */
  openTab(): Promise<Page>
}

/** Signs in as a user does. `bypassCSP` allows `findAxeViolations`. */
export async function openDashboard(
  browser: Browser,
  url: string,
  email: string,
  options: BrowserContextOptions = {},
): Promise<DashboardTab> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: 'en-GB', ...options })
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

interface AxeResult {
  readonly violations: readonly { readonly id: string; readonly nodes: readonly { readonly target: string[] }[] }[]
}

/** What axe finds on the page as it is, as `rule: elements`. */
export async function findAxeViolations(page: Page): Promise<string[]> {
  await page.evaluate(AXE)
  const { violations } = await page.evaluate<AxeResult>('axe.run()')
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`)
}
