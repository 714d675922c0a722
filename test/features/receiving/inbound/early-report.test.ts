/** Reports about a delivery that arrive while our own session with the receiver is open. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Parser } from '#features/receiving/inbound/process/parser.ts'
import { InboundProcessor } from '#features/receiving/inbound/process/process.ts'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { listOperatorMail } from '#features/receiving/postmaster/store.ts'
import type { Destination } from '#features/receiving/received/message.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { minutes, seconds } from '#platform/units.ts'
import { UNKNOWN_AUTHENTICATION } from '#protocols/authentication/result.ts'
import type { Dsn } from '#protocols/dsn/fields.ts'
import {
  type BounceFixture,
  claimInFlight,
  reportOf,
  SENT,
  type SentEmail,
  startBounceFixture,
  stateOf,
  UNCERTAIN,
} from '#test/features/receiving/bounces/fixture.ts'
import { eventually } from '#test/support/app.ts'
import { expectBalanced } from '#test/support/consistency.ts'
import { receiveTestMail } from '#test/support/inbound.ts'

let post: BounceFixture
let processor: InboundProcessor
let parses = 0
beforeEach(async () => {
  post = await startBounceFixture()
  parses = 0
  const parser: Parser = {
    parse: ({ helo }) => {
      parses++
      return Promise.resolve({
        message: {
          headers: [],
          from: 'mailer-daemon@receiver.test',
          to: null,
          cc: null,
          replyTo: null,
          fromAddresses: [],
          toAddresses: [],
          subject: 'Undelivered',
          messageId: null,
          inReplyTo: null,
          references: [],
          dateMs: null,
          text: '',
          html: null,
          attachments: [],
          isAutomatic: true,
        },
        strippedText: null,
        authentication: UNKNOWN_AUTHENTICATION,
        report: { kind: 'delivery', report: JSON.parse(helo) as Dsn },
      })
    },
    close: () => undefined,
  }
  processor = new InboundProcessor(post.app, parser)
  processor.start()
})
afterEach(async () => {
  await processor.stop(0)
  expectBalanced(post)
  await post[Symbol.asyncDispose]()
})

const returnPath = (email: SentEmail, index = 0): Destination => {
  const { verp, id } = email.recipients[index] ?? { verp: '', id: 0 }
  return { kind: 'bounce', address: verp, recipientId: id }
}

/** Receives a message that the parser of these tests turns into a report, identified by its HELO. */
const take = (destinations: readonly Destination[], report = reportOf({})) =>
  receiveTestMail(post.app, destinations, 'A: b\n', { mailFrom: '', helo: JSON.stringify(report) })

/** Advances the clock in steps until a condition holds. */
const passUntil = (condition: () => boolean) =>
  eventually(() => {
    if (condition()) return true
    post.clock.advance(seconds(5))
    return false
  })

const isDone = () => countQueueEntries(post.app.db) === 0

const ofEmail = (email: SentEmail) => {
  const { status, events, suppressed } = stateOf(post, email)
  return { status, events: events.map(({ type }) => type), suppressed }
}

// Proves: status-31
test.each([
  ['sent', SENT, ['sent', 'delivered', 'bounced']],
  ['uncertain', UNCERTAIN, ['uncertain', 'bounced']],
] as const)(
  'a report that arrives before our session has ended waits, and bounces a recipient that becomes %s',
  async (_, verdict, events) => {
    const email = await post.email(['bob@a.test'], 'queued')
    const end = await claimInFlight(post, 'a.test')
    await take([returnPath(email)])
    await passUntil(() => parses === 3)
    expect([countQueueEntries(post.app.db), ofEmail(email).status]).toEqual([1, 'processing'])
    await end(verdict)
    await passUntil(isDone)
    expect(ofEmail(email)).toEqual({ status: 'bounced', events: [...events], suppressed: ['bob@a.test'] })
  },
)

test('a report about a session that does not end goes to the operator after a quarter of an hour', async () => {
  const email = await post.email(['bob@a.test'], 'queued')
  await claimInFlight(post, 'a.test')
  const takenAt = post.clock.now()
  await take([returnPath(email)])
  await passUntil(isDone)
  const waitedMs = post.clock.now() - takenAt
  const { total } = listOperatorMail(post.app.db, { limit: 10 })
  expect({ isLongEnough: waitedMs >= minutes(15), total, parses, ...ofEmail(email) }).toEqual({
    isLongEnough: true,
    total: 1,
    parses: 9,
    status: 'processing',
    events: [],
    suppressed: [],
  })
})

test('a message to two return paths takes effect once, even if it waits for one of them', async () => {
  const early = await post.email(['bob@a.test'], 'queued')
  const end = await claimInFlight(post, 'a.test')
  const gone: Destination = { kind: 'bounce', address: 'b-gone@send.sender.test', recipientId: 4711 }
  await take([gone, returnPath(early)])
  await passUntil(() => parses === 3)
  expect(listOperatorMail(post.app.db, { limit: 10 }).total).toBe(0)
  await end(SENT)
  await passUntil(isDone)
  expect([ofEmail(early).status, listOperatorMail(post.app.db, { limit: 10 }).total]).toEqual(['bounced', 1])
})

test('a message to a return path and another recipient does not wait', async () => {
  const email = await post.email(['bob@a.test'], 'queued')
  await claimInFlight(post, 'a.test')
  const { domain } = await createDomain(post.app, post.actor, 'inbound.test')
  const { accountId } = post.actor
  await take([returnPath(email), { kind: 'domain', address: 'x@inbound.test', accountId, domainId: domain.id }])
  await eventually(isDone)
  expect([parses, ofEmail(email).status]).toEqual([1, 'processing'])
})

test('waiting reports delay no others, and stay queued when the service stops', async () => {
  const email = await post.email(['bob@a.test'], 'queued')
  const other = await post.email(['carol@b.test'])
  await claimInFlight(post, 'a.test')
  for (let number = 0; number < 40; number++)
    await take([returnPath(email)], reportOf({ diagnostic: `550 5.1.1 ${number}` }))
  await take([returnPath(other)])
  await eventually(() => ofEmail(other).status === 'bounced')
  await eventually(() => parses === 41)
  await processor.stop(0)
  post.clock.advance(minutes(20))
  expect([parses, countQueueEntries(post.app.db)]).toEqual([41, 40])
})
