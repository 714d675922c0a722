import { expect, test } from 'bun:test'
import { LISTENER_LIMITS } from '#features/receiving/inbound/listener/protocol.ts'
import type { Destination, Rejection } from '#features/receiving/received/message.ts'
import { startTestServer } from './listener-fixture.ts'

const { idleMs, sweepMs } = LISTENER_LIMITS

test('waiting for a reply, of any kind, does not count as idle time', async () => {
  let asked = Promise.withResolvers<void>()
  let decided = Promise.withResolvers<Destination | Rejection>()
  await using server = await startTestServer({
    decide() {
      asked.resolve()
      return decided.promise
    },
  })
  await using client = await server.connectGreeted()
  const replies = [await client.say('MAIL FROM:<>')]
  for (const code of [452, 550]) {
    const reply = client.say('RCPT TO:<ada@x.test>')
    await Promise.race([asked.promise, reply])
    server.clock.advance(2 * idleMs)
    decided.resolve({ code, text: '4.3.1 Not now' })
    replies.push(await reply)
    server.clock.advance(sweepMs)
    replies.push(await client.say('NOOP'))
    asked = Promise.withResolvers()
    decided = Promise.withResolvers()
  }
  server.clock.advance(idleMs)
  replies.push(await client.reply())
  expect(replies.map((reply) => reply.slice(0, 3))).toEqual(['250', '452', '250', '550', '250', '421'])
})
