/**
 * @module The kill test of drafts: kills a real service with `kill -9` while several clients release the same drafts at
 * once. In the end each draft that a client tried to release was sent once, and no other was sent. See
 * `scripts/kill-test --help`.
 */
import type { Database } from 'bun:sqlite'
import { statusCode } from '#features/sending/queue/status.ts'
import { parseUuid } from '#platform/ids.ts'
import { KillRun, waitUntil } from './run.ts'
import { SENDER_DOMAIN } from './service.ts'

const DRAFTS = 30
/** Of them, those that nobody releases. */
const LEFT = 5
const CLIENTS = 3

const run = new KillRun()
const { random, violations } = run
const { service, sink, account } = await run.createDelivering()
const sum = { kills: 0, released: 0, refused: 0, unanswered: 0, uncertain: 0 }
let isUp = false

const audits = (db: Database, id: string) =>
  db
    .query<{ n: number }, [string]>(
      "SELECT count(*) AS n FROM audit_logs WHERE action = 'email.released' AND resource_id = ?",
    )
    .get(id) ?? { n: 0 }
const statusOf = (db: Database, id: string) =>
  db
    .query<{ status: number }, [Uint8Array]>('SELECT status FROM emails WHERE uuid = ?')
    .get(parseUuid(id) ?? new Uint8Array())?.status

/** Undefined without a response. */
async function post(path: string, body: unknown, key = account.key) {
  try {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await fetch(`${service.url}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
      keepalive: false,
    })
    return { status: response.status, body: (await response.json()) as { data: { id: string; key: string } } }
  } catch {
    return undefined
  }
}

/** Releases all, in an order of its own, as people who do not know of each other and repeat what got no response. */
async function release(ids: readonly string[]): Promise<void> {
  const first = random.between(0, ids.length - 1)
  for (const id of [...ids.slice(first), ...ids.slice(0, first)])
    for (;;) {
      const answer = await post(`/v1/emails/${id}/release`, {})
      if (answer) {
        if (answer.status === 200) sum.released++
        else if (answer.status === 409) sum.refused++
        else violations.push(`releasing ${id}: ${answer.status}`)
        break
      }
      sum.unanswered++
      while (!isUp) await Bun.sleep(5)
    }
}

async function runRound(round: number): Promise<void> {
  await service.start()
  isUp = true
  const agent = (await post('/v1/api-keys', { name: `r${round}`, drafts: true }))?.body.data.key
  const names = Array.from({ length: DRAFTS }, (_, n) => `r${round}n${n}`)
  const ids = await Promise.all(
    names.map(async (to) => {
      const email = { from: `a@${SENDER_DOMAIN}`, to: `${to}@receiver.test`, subject: to, text_body: to }
      return (await post('/v1/emails', email, agent))?.body.data.id ?? ''
    }),
  )
  const before = sum.released
  const clients = Array.from({ length: CLIENTS }, () => release(ids.slice(LEFT)))
  const killAt = random.between(1, DRAFTS - LEFT - 2)
  await waitUntil(() => sum.released - before >= killAt, 10_000, 1)
  isUp = false
  await service.running?.kill()
  sum.kills++
  await service.start()
  isUp = true
  await Promise.all(clients)
  const countSent = (to: string) => sink.messages.filter(({ rcptTo }) => rcptTo[0] === `${to}@receiver.test`).length
  // Those that the kill made uncertain never arrive.
  await waitUntil(() => names.slice(LEFT).every((to) => countSent(to) > 0), 15_000)
  using db = service.openBooks()
  for (const [index, to] of names.entries()) {
    const id = ids[index] ?? ''
    const { n: audited } = audits(db, id)
    const wanted = index < LEFT ? 0 : 1
    // A kill while the message is leaving makes it uncertain, and it is never sent again.
    const isUncertain = countSent(to) === 0 && statusOf(db, id) === statusCode('uncertain')
    if (isUncertain) sum.uncertain++
    if ((countSent(to) !== wanted && !isUncertain) || audited !== wanted)
      violations.push(`${to} was sent ${countSent(to)} times, with ${audited} audit entries`)
  }
  await service.running?.kill()
}

await run.collect(service, async () => {
  await run.runRounds(runRound)
  await service.start()
})
run.end(
  `${sum.kills} kills; ${sum.released} releases, ${sum.refused} refused because another was first, ${sum.unanswered} without a response, ${sum.uncertain} uncertain; ` +
    `${violations.length === 0 ? 'each draft was sent once or not at all' : 'promises were broken'}`,
)
