/**
 * @module A TCP relay on a port of 127.0.0.1, for tests of connections that break: it can be cut, so that no octet passes
 * and no end is seen, as when a network is partitioned, and its target can change.
 */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface Relay extends AsyncDisposable {
  readonly port: number
  /** Sends new connections to this port of 127.0.0.1; undefined: they are closed. */
  aim(port: number | undefined): void
  /** Lets nothing pass until `heal`: connections stay open, and new ones wait. */
  cut(): void
  heal(): void
  /** Resets all connections. */
  drop(): void
}

/** @param target port of 127.0.0.1 */
export async function startRelay(target?: number): Promise<Relay> {
  let aimed = target
  let isCut = false
  const sockets = new Set<Socket>()
  let whenHealed = Promise.withResolvers<void>()
  whenHealed.resolve()

  const carry = (from: Socket, to: Socket): void => {
    from.on('data', (chunk) => {
      if (!to.write(chunk)) from.pause()
    })
    to.on('drain', () => {
      if (!isCut) from.resume()
    })
    from.on('end', () => to.end())
    from.on('close', () => to.destroy())
    from.on('error', () => to.resetAndDestroy())
  }
  const track = (socket: Socket): void => {
    sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('close', () => sockets.delete(socket))
  }
  const server = createServer({ pauseOnConnect: true }, (client) => {
    track(client)
    client.on('error', () => undefined)
    void whenHealed.promise.then(() => {
      if (aimed === undefined || client.destroyed) {
        client.destroy()
        return
      }
      const upstream = connect({ host: '127.0.0.1', port: aimed })
      track(upstream)
      carry(client, upstream)
      carry(upstream, client)
      upstream.once('connect', () => {
        if (!isCut) client.resume()
      })
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const drop = (): void => {
    for (const socket of sockets) socket.resetAndDestroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    aim: (port) => {
      aimed = port
    },
    cut() {
      if (isCut) return
      isCut = true
      whenHealed = Promise.withResolvers()
      for (const socket of sockets) socket.pause()
    },
    heal() {
      isCut = false
      whenHealed.resolve()
      for (const socket of sockets) socket.resume()
    },
    drop,
    async [Symbol.asyncDispose]() {
      whenHealed.resolve()
      drop()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
