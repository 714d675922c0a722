/** @module A time server on 127.0.0.1 (SNTP, RFC 5905) that says whatever time a test wants. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'

export interface TimeServer extends AsyncDisposable {
  /** `127.0.0.1:port` */
  readonly address: string
  readonly port: number
  /** Changed by the test at any time. */
  behaviour: {
    /** Milliseconds since 1970. */
    now: () => number
    /** 0 is a refusal. */
    stratum?: number
    /** 3: the server has no time itself. */
    leap?: number
    /** Answers as if somebody who has not seen the query forged the answer. */
    isForged?: boolean
    isSilent?: boolean
  }
  readonly queries: Buffer[]
}

export async function startTimeServer(behaviour: TimeServer['behaviour']): Promise<TimeServer> {
  const socket = createSocket('udp4')
  const queries: Buffer[] = []
  const server: TimeServer = {
    address: '',
    port: 0,
    behaviour,
    queries,
    async [Symbol.asyncDispose]() {
      const closed = once(socket, 'close')
      socket.close()
      await closed
    },
  }
  socket.on('error', () => undefined)
  socket.on('message', (query: Buffer, { port, address }) => {
    queries.push(query)
    const { now, stratum = 2, leap = 0, isForged = false, isSilent = false } = server.behaviour
    if (isSilent) return
    const reply = Buffer.alloc(48)
    reply[0] = (leap << 6) | (4 << 3) | 4
    reply[1] = stratum
    if (!isForged) query.copy(reply, 24, 40, 48)
    for (const at of [32, 40]) {
      const seconds = now() / 1000 + 2_208_988_800
      reply.writeUInt32BE(Math.floor(seconds) % 2 ** 32, at)
      reply.writeUInt32BE(Math.floor((seconds % 1) * 2 ** 32), at + 4)
    }
    socket.send(reply, port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const { port } = socket.address()
  return Object.assign(server, { port, address: `127.0.0.1:${port}` })
}
