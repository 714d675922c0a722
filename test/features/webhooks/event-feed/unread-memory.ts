/** @module Measures the memory of streams whose clients never read; prints the figures as JSON. Run by stream.test.ts. */
import { MiB } from '#platform/units.ts'
import { createTestApi } from '#test/support/api.ts'
import { numbers, openStream, openUnread, page, recordEvents } from './feed-client.ts'

const EVENTS = 100_000

await using service = await createTestApi()
const { app, actor, api } = service
const unread = await Promise.all(numbers(1, 9).map(() => openUnread(service)))
const reading = await openStream(service.url, { key: service.key })
Bun.gc(true)
const before = process.memoryUsage().rss
let slowestMs = 0
let answered = 0
let isComing = true
const asking = (async () => {
  while (isComing) {
    const from = performance.now()
    const { status } = await api('GET', '/v1/account')
    if (status === 200) answered++
    slowestMs = Math.max(slowestMs, performance.now() - from)
  }
})()
let taken = 0
const taking = (async () => {
  while (taken < EVENTS && (await reading.next())) taken++
})()
const types = new Array(500).fill('delivered')
const data = { smtp_response: `250 2.0.0 ${'x'.repeat(200)}`, ip_address: '192.0.2.1' }
for (let recorded = 0; recorded < EVENTS; recorded += types.length) {
  await recordEvents(app, actor.accountId, types, data)
  if (recorded % 10_000 === 0) Bun.gc(true)
}
await taking
isComing = false
await asking
const grownMiB = Math.round((process.memoryUsage().rss - before) / MiB)
const { data: last } = await page(api, `?after=${EVENTS - 1}`)
/** What buffers of all clients would hold. */
const bufferedMiB = Math.round((unread.length * EVENTS * JSON.stringify(last).length) / MiB)
console.log(
  JSON.stringify({ events: EVENTS, taken, grownMiB, bufferedMiB, answered, slowestMs: Math.round(slowestMs) }),
)
for (const socket of unread) socket.destroy()
reading[Symbol.dispose]()
