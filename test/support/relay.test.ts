import { expect, test } from 'bun:test'
import { eventually } from '#test/support/app.ts'
import { startRelay } from '#test/support/relay.ts'

test('a cut relay holds what is sent until it is healed, and a dropped one ends its connections', async () => {
  using server = Bun.listen({
    hostname: '127.0.0.1',
    port: 0,
    socket: { data: (socket, data) => void socket.write(data.toString().toUpperCase()) },
  })
  await using relay = await startRelay(server.port)
  const seen = { text: '', isClosed: false }
  const client = await Bun.connect({
    hostname: '127.0.0.1',
    port: relay.port,
    socket: {
      data: (_, data) => {
        seen.text += data.toString()
      },
      close: () => {
        seen.isClosed = true
      },
    },
  })
  client.write('a')
  await eventually(() => seen.text === 'A')
  relay.cut()
  client.write('b')
  await Bun.sleep(100)
  const whileCut = seen.text
  relay.heal()
  await eventually(() => seen.text === 'AB')
  relay.drop()
  await eventually(() => seen.isClosed)
  expect([whileCut, seen.text]).toEqual(['A', 'AB'])
})
