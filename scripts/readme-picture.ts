/**
 * @module The picture of the README, an email page of the demo: `bun scripts/readme-picture.ts` writes
 * docs/images/email.webp. Needs Debian's chromium-headless-shell.
 */
import { join } from 'node:path'
import { startBrowser } from '#test/support/browser.ts'
import { signIn } from '#test/support/users.ts'
import { OWNER, startDemo } from './demo.ts'

await using demo = await startDemo()
const { service, ids } = demo
const [key = '', value = ''] = (await signIn(service, OWNER)).cookie.split('=')
const browser = await startBrowser()
const context = await browser.newContext({
  ...{ viewport: { width: 1200, height: 612 }, colorScheme: 'light', reducedMotion: 'reduce' },
  ...{ locale: 'en-GB', timezoneId: 'Europe/Berlin' },
})
await context.addCookies([{ name: key, value, url: service.url }])
const page = await context.newPage()
await page.goto(`${service.url}/app/emails/${ids['bounced']}`)
await page.waitForSelector('h1')
await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
// Playwright has no WebP, which takes a third of the bytes of PNG.
const session = await context.newCDPSession(page)
const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 85 })
await Bun.write(join(import.meta.dir, '../docs/images/email.webp'), Buffer.from(data, 'base64'))
await browser.close()
