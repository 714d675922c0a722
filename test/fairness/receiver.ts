/** @module SMTP receivers of the fairness harness: one accepts everything immediately, one is a tarpit. */
import { createServer, type Server, type Socket } from 'node:net'

export interface Receiver {
  close(): void
}

export interface ReceivedMessage {
  readonly rcptTo: string
  /** The raw message as latin1. */
  readonly raw: string
}

const EHLO_REPLY = '250-mx.test\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SIZE 104857600\r\n'

/** Starts a receiver that accepts everything and reports each message at its final dot. Bodies are cut at 64 KiB. */
export function startReceiver(
  address: string,
  port: number,
  onMessage: (message: ReceivedMessage) => void,
): Promise<Receiver> {
  return listen(address, port, (socket) => {
    let text = ''
    let rcptTo = ''
    let body: string | undefined
    socket.write('220 mx.test ESMTP\r\n')
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      for (;;) {
        if (body !== undefined) {
          const end = text.indexOf('\r\n.\r\n')
          if (end < 0) {
            // The last octets may begin the end marker.
            if (body.length < MAX_STORED_LENGTH) body += text.slice(0, -4)
            text = text.slice(-4)
            return
          }
          onMessage({ rcptTo, raw: body + text.slice(0, end) })
          text = text.slice(end + 5)
          body = undefined
          socket.write('250 2.0.0 Ok\r\n')
        }
        const end = text.indexOf('\r\n')
        if (end < 0) return
        const line = text.slice(0, end)
        text = text.slice(end + 2)
        const verb = line.slice(0, 4).toUpperCase()
        if (verb === 'RCPT') rcptTo = /<(.*)>/.exec(line)?.[1] ?? ''
        if (verb === 'DATA') {
          body = ''
          // An empty message is only a dot.
          text = `\r\n${text}`
          socket.write('354 Go on\r\n')
        } else socket.write(verb === 'EHLO' ? EHLO_REPLY : verb === 'QUIT' ? '221 2.0.0 Bye\r\n' : '250 2.0.0 Ok\r\n')
      }
    })
  })
}

const MAX_STORED_LENGTH = 64 * 1024

/** Starts a receiver that replies up to the message and then never again. */
export const startTarpit = (address: string, port: number): Promise<Receiver> =>
  listen(address, port, (socket) => {
    socket.write('220 mx.test ESMTP\r\n')
    socket.on('data', (chunk) => {
      for (const line of chunk.toString('latin1').split('\r\n')) {
        const verb = line.slice(0, 4).toUpperCase()
        if (verb === 'EHLO') socket.write(EHLO_REPLY)
        else if (verb === 'DATA') socket.write('354 Go on\r\n')
        else if (verb === 'MAIL' || verb === 'RCPT' || verb === 'RSET') socket.write('250 2.0.0 Ok\r\n')
      }
    })
  })

function listen(address: string, port: number, serve: (socket: Socket) => void): Promise<Receiver> {
  const sockets = new Set<Socket>()
  const server: Server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    serve(socket)
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, address, () =>
      resolve({
        close() {
          server.close()
          for (const socket of sockets) socket.destroy()
        },
      }),
    )
  })
}
