/**
 * @module Measures how long a browser with a slow processor takes to draw the Overview, from the request to the first
 * events, with an empty cache and with a filled one: `bun scripts/overview-time.ts [--runs N] [--slowdown N]`. The
 * service runs in this process, with 500 emails.
 */
import { parseArgs } from 'node:util'
import { startBrowser } from '#test/support/browser.ts'
import { openDashboard } from '#test/support/dashboard.ts'
import { createEmailApi, EMAIL } from '#test/support/email-api.ts'
import { createTestUser } from '#test/support/users.ts'

const { values } = parseArgs({
  options: { runs: { type: 'string', default: '7' }, slowdown: { type: 'string', default: '4' } },
})
const runs = Number(values.runs)
const slowdown = Number(values.slowdown)
const EMAILS = 500
const USER = 'ada@people.test'

await using service = await createEmailApi({ settings: { TASSIS_LOGINS_PER_MINUTE: '1000' } })
await createTestUser(service.app, service.actor, USER, 'owner')
for (let sent = 0; sent < EMAILS; sent++) await service.send(EMAIL)
await using browser = await startBrowser()

/** Milliseconds of each run. */
const empty: number[] = []
const filled: number[] = []
for (let run = 0; run <= runs; run++) {
  await using dashboard = await openDashboard(browser, service, USER)
  const { page } = dashboard
  const session = await page.context().newCDPSession(page)
  await session.send('Emulation.setCPUThrottlingRate', { rate: slowdown })
  const draw = async (): Promise<number> => {
    const startedAt = performance.now()
    await page.goto(`${service.url}/app`, { waitUntil: 'commit' })
    // Figures and events are drawn last.
    await page.locator('section[aria-labelledby=figures] .figures').waitFor()
    await page.locator('section[aria-labelledby=events] li').first().waitFor()
    return performance.now() - startedAt
  }
  const first = await draw()
  const second = await draw()
  // The first run bundles the dashboard.
  if (run === 0) continue
  empty.push(first)
  filled.push(second)
}

const describe = (times: readonly number[]): string => {
  const sorted = times.toSorted((a, b) => a - b)
  const middle = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
  return `${middle.toFixed(0)} ms (${sorted[0]?.toFixed(0)}..${sorted.at(-1)?.toFixed(0)})`
}
console.log(`Overview drawn, processor slowed by ${slowdown}, median of ${runs} (minimum..maximum)`)
console.log(`  empty cache   ${describe(empty)}`)
console.log(`  filled cache  ${describe(filled)}`)
process.exit(0)
