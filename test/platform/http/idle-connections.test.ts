import { expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { closeIdleConnections, setAccepting } from '#platform/http/connections.ts'
import { eventually } from '#test/support/app.ts'

const start = () => Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: ({ url }) => new Response(url) })

/** Opens a connection without a request, which the server may accept only later. */
const begin = (port: number, localAddress = '127.0.0.1'): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress }, () => resolve(socket))
    socket
      .on('error', reject)
      .on('end', () => socket.destroy())
      .resume()
  })

async function open(port: number, localAddress?: string): Promise<Socket> {
  const socket = await begin(port, localAddress)
  await use(socket)
  return socket
}

/** Sends a request, so that the connection is the one that has been idle for the shortest time. */
const use = (socket: Socket): Promise<void> =>
  new Promise((resolve) => {
    socket.once('data', () => resolve())
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  })

test('of the network with most connections, those that have been idle longest are closed, and never busy ones', async () => {
  await using server = start()
  const port = server.port ?? 0
  const many: Socket[] = []
  for (let n = 0; n < 5; n++) many.push(await open(port, '127.0.0.2'))
  const few = [await open(port, '127.0.0.3'), await open(port, '127.0.0.3')]
  // The system measures idle time in ticks of up to 10 ms.
  const usedAt = performance.now()
  await eventually(() => performance.now() > usedAt + 50)
  for (const index of [0, 3]) await use(many[index] as Socket)
  const busy = many[1]?.localPort
  const closed = closeIdleConnections(2, {
    ports: new Set([port]),
    isBusy: (peerPort) => peerPort === busy,
    clientOf: () => undefined,
  })
  expect(closed).toBe(2)
  const isOpen = () => [...many, ...few].map(({ destroyed }) => !destroyed)
  await eventually(() => isOpen().filter(Boolean).length === 5)
  expect(isOpen()).toEqual([true, true, false, true, false, true, true])
  for (const socket of [...many, ...few]) socket.destroy()
})

test('connections of a TLS listener count in the network of its client', async () => {
  await using server = start()
  const port = server.port ?? 0
  const sockets = [await open(port), await open(port), await open(port)]
  const [, second, third] = sockets
  const clients = new Map([second, third].map((socket) => [socket?.localPort, '2001:db8::1']))
  const which = { ports: new Set([port]), isBusy: () => false, clientOf: (peer: number) => clients.get(peer) }
  expect(closeIdleConnections(1, which)).toBe(1)
  await eventually(() => sockets.some(({ destroyed }) => destroyed))
  expect(sockets[0]?.destroyed).toBe(false)
  for (const socket of sockets) socket.destroy()
})

test('while a port does not accept, open connections go on and new ones wait', async () => {
  await using server = start()
  const port = server.port ?? 0
  const early = await open(port)
  setAccepting(false, new Set([port]))
  let isOpen = false
  const late = begin(port).then((socket) => {
    isOpen = true
    return socket
  })
  await use(early)
  expect(isOpen).toBe(false)
  setAccepting(true, new Set([port]))
  for (const socket of [early, await late]) socket.destroy()
})
