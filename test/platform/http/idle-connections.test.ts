import { expect, test } from 'bun:test'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { closeIdleConnections } from '#platform/http/connection-guard.ts'
import { eventually } from '#test/support/app.ts'

const start = () => Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: ({ url }) => new Response(url) })

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' })
  await use(socket.on('end', () => socket.destroy()).resume())
  return socket
}

/** Sends a request, so that the connection is the one that has been idle for the shortest time. */
const use = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    socket.once('data', () => resolve())
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  })

test('those that have been idle longest are closed, and never busy ones', async () => {
  await using server = start()
  const port = server.port ?? 0
  const sockets: Socket[] = []
  for (let n = 0; n < 5; n++) sockets.push(await open(port))
  // The system measures idle time in ticks of up to 10 ms.
  const usedAt = performance.now()
  await eventually(() => performance.now() > usedAt + 50)
  for (const index of [0, 3]) await use(sockets[index] as Socket)
  expect(closeIdleConnections(2, new Set([port]), new Set([sockets[1]?.localPort ?? 0]))).toBe(2)
  const isOpen = () => sockets.map(({ destroyed }) => !destroyed)
  await eventually(() => isOpen().filter(Boolean).length === 3)
  expect(isOpen()).toEqual([true, true, false, true, false])
  for (const socket of sockets) socket.destroy()
})

test('sockets that have no port stay, such as those to a child process', async () => {
  const children = Array.from({ length: 5 }, () => Bun.spawn(['cat'], { stdin: 'pipe', stdout: 'pipe' }))
  await using server = start()
  const port = server.port ?? 0
  const stranger = await open(port)
  const isClosed = once(stranger, 'close')
  // Both of its ends, so that the descriptor before those of the children has a port that is meant.
  expect(closeIdleConnections(100, new Set([port, stranger.localPort ?? 0]), new Set())).toBe(2)
  await isClosed
  for (const { stdin, stdout } of children) {
    stdin.write('still open')
    await stdin.end()
    expect(await stdout.text()).toBe('still open')
  }
})
