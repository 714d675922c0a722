import { expect, test } from 'bun:test'
import { LISTENER_LIMITS } from '#features/receiving/inbound/listener-protocol.ts'
import { InboundServer } from '#features/receiving/inbound/listener-server.ts'
import type { Destination, Rejection } from '#features/receiving/received/message.ts'
import { createListenerSettings } from '#test/support/listener-settings.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'

const { idleMs, sweepMs } = LISTENER_LIMITS

test('waiting for a reply, of any kind, does not count as idle time', async () => {
  const { settings, remove } = await createListenerSettings()
  const clock = new ManualClock()
  let asked = Promise.withResolvers<void>()
  let decided = Promise.withResolvers<Destination | Rejection>()
  const server = new InboundServer({
    settings,
    clock,
    decide() {
      asked.resolve()
      return decided.promise
    },
    receive: async () => null,
    onWarning: () => undefined,
    onDebug: () => undefined,
  })
  const [{ port } = { port: 0 }] = await server.listen()
  try {
    await using client = await connectSmtp(port, '127.0.0.1')
    const replies = [await client.reply(), await client.say('HELO client.test'), await client.say('MAIL FROM:<>')]
    for (const code of [452, 550]) {
      const reply = client.say('RCPT TO:<ada@x.test>')
      await Promise.race([asked.promise, reply])
      clock.advance(2 * idleMs)
      decided.resolve({ code, text: '4.3.1 Not now' })
      replies.push(await reply)
      clock.advance(sweepMs)
      replies.push(await client.say('NOOP'))
      asked = Promise.withResolvers()
      decided = Promise.withResolvers()
    }
    clock.advance(idleMs)
    replies.push(await client.reply())
    expect(replies.map((reply) => reply.slice(0, 3))).toEqual(['220', '250', '250', '452', '250', '550', '250', '421'])
  } finally {
    server.stop()
    await server.drain()
    remove()
  }
})
