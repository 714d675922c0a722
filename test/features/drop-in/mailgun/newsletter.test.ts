/**
 * @module A newsletter in the form in which Ghost sends it, while the service is killed three times: during acceptance
 * and during delivery. The client repeats what failed, as Ghost does, and pages through the events meanwhile.
 * NEWSLETTER_BATCHES=5 sends to 5,000 recipients in batches of 1,000, NEWSLETTER_VERBOSE=1 prints figures.
 */
import { expect, setDefaultTimeout, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { statusCode } from '#features/sending/queue/status.ts'
import { createFolder, KilledService, waitUntil } from '#test/kill/run.ts'
import { prepareAccount } from '#test/kill/service.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { startSink } from '#test/support/sink.ts'
import { createGhostBatch, createMailgun } from './fixture.ts'

setDefaultTimeout(180_000)

const LARGE = process.env['NEWSLETTER_BATCHES']
const BATCHES = Number(LARGE ?? 2)
const BATCH_SIZE = LARGE ? 1000 : 400
/** As Ghost. */
const CONCURRENCY = 2
const RECIPIENTS = Array.from({ length: BATCHES * BATCH_SIZE }, (_, index) => `reader-${index}@receiver.test`)
const HTML = `<p>Hello %recipient.first_name%</p>${'<p>News of the day</p>'.repeat(500)}<a href="%recipient.unsubscribe_url%">Leave</a>`
const FILTER = { limit: 300, event: 'delivered', tags: 'bulk-email', ascending: 'yes', begin: '1000000000' } as const

test('a newsletter reaches each recipient once over three kills, and so do its events', async () => {
  await using sink = await startSink()
  const dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  const folder = createFolder()
  const service = await KilledService.make(folder, {
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_SMTP_PORT: String(sink.port),
  })
  const { key } = await prepareAccount(service.settings)
  const client = createMailgun({ url: service.url, key }, '')
  let isOver = false
  const repeat = async <T>(call: () => Promise<T>): Promise<T> => {
    for (;;) {
      const answer = await call().catch(async (error: { status?: number; details?: string }) => {
        // The client makes a 400 of a broken connection.
        if (error.status !== 400 || !/ECONN|socket|hang up|closed|Unable to connect/i.test(String(error.details)))
          throw error
        await Bun.sleep(250)
        return undefined
      })
      if (answer) return answer
    }
  }
  let repeats = 0
  const batches = Array.from({ length: BATCHES }, (_, index) =>
    RECIPIENTS.slice(index * BATCH_SIZE, (index + 1) * BATCH_SIZE),
  )
  const send = async (): Promise<void> => {
    for (let batch = batches.shift(); batch; batch = batches.shift()) {
      const message = createGhostBatch(batch, 'News <news@sender.test>', HTML)
      await repeat(() => {
        repeats++
        return client.messages.create('sender.test', message)
      })
    }
  }
  /** Reads pages as they fill, and then to the end. */
  const follow = async (): Promise<string[]> => {
    const ids: string[] = []
    let query: Parameters<typeof client.events.get>[1] = { ...FILTER }
    for (;;) {
      const wasOver = isOver
      const page = await repeat(() => client.events.get('sender.test', query))
      for (const { id } of page.items) ids.push(id)
      if (wasOver && page.items.length === 0) return ids
      query = { ...FILTER, page: page.pages.next?.page ?? '' }
      if (page.items.length === 0) await Bun.sleep(300)
    }
  }
  const killAndStart = async () => {
    await service.running?.kill()
    await service.start()
  }
  try {
    await service.start()
    const sending = Promise.all(Array.from({ length: CONCURRENCY }, send))
    const following = follow()
    await Bun.sleep(150)
    await killAndStart()
    for (const received of [RECIPIENTS.length * 0.15, RECIPIENTS.length * 0.6]) {
      await waitUntil(() => sink.messages.length >= received, 120_000)
      await killAndStart()
    }
    await sending
    using db = service.openBooks()
    const count = (where: string) =>
      db.query<{ n: number }, []>(`SELECT count(*) AS n FROM recipients WHERE ${where}`).get()?.n
    await waitUntil(() => count('next_at IS NOT NULL') === 0, 120_000, 50)
    isOver = true

    expect(count('TRUE')).toBe(RECIPIENTS.length)
    const uncertain = new Set(
      db
        .query<{ address: string }, []>(`SELECT address FROM recipients WHERE status = ${statusCode('uncertain')}`)
        .all()
        .map(({ address }) => address),
    )
    const received = new Map<string, number>()
    for (const { rcptTo } of sink.messages) for (const to of rcptTo) received.set(to, (received.get(to) ?? 0) + 1)
    const wrong = RECIPIENTS.filter((address) =>
      uncertain.has(address) ? (received.get(address) ?? 0) > 1 : received.get(address) !== 1,
    )
    expect(wrong).toEqual([])
    // Only what was inside DATA when a process died.
    expect(uncertain.size).toBeLessThan(60)
    expect(repeats).toBeGreaterThan(BATCHES)

    const ids = await following
    expect([ids.length, new Set(ids).size]).toEqual([RECIPIENTS.length - uncertain.size, ids.length])
    const delivered: string[] = []
    for (let query: object = FILTER; ; ) {
      const page = await client.events.get('sender.test', query)
      if (page.items.length === 0) break
      delivered.push(...page.items.map(({ recipient }) => recipient))
      query = { ...FILTER, page: page.pages.next?.page }
    }
    expect(delivered.toSorted()).toEqual(RECIPIENTS.filter((address) => !uncertain.has(address)).toSorted())
    if (process.env['NEWSLETTER_VERBOSE'])
      console.log({ repeats, uncertain: uncertain.size, received: sink.messages.length })
  } finally {
    isOver = true
    await service.running?.kill()
    await dns.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
