/** @module The SMTP server of the receiver: accepts every message as fast as one process can, and stores none. */
import type { Socket } from 'node:net'
import { type SecureContext, TLSSocket } from 'node:tls'

export interface SunkMessage {
  readonly isEncrypted: boolean
  readonly rcptTo: string
  /** The raw message as latin1, after a line end. */
  readonly text: string
}

/** @param secureContext for STARTTLS; undefined if it is not offered */
export function serveSmtp(
  socket: Socket,
  secureContext: SecureContext | undefined,
  onMessage: (message: SunkMessage) => void,
): void {
  socket.on('error', () => undefined)
  socket.write('220 mx.bench.test ESMTP\r\n')
  converse(socket, secureContext, onMessage)
}

function converse(
  socket: Socket,
  secureContext: SecureContext | undefined,
  onMessage: (message: SunkMessage) => void,
): void {
  const offers = ['PIPELINING', '8BITMIME', ...(secureContext ? ['STARTTLS'] : []), 'SIZE 52428800']
  const ehloReply = ['mx.bench.test', ...offers].map((line, at) => `250${at < offers.length ? '-' : ' '}${line}\r\n`)
  let text = ''
  let isInData = false
  let rcptTo = ''
  const onData = (chunk: Buffer): void => {
    text += chunk.toString('latin1')
    let replies = ''
    for (;;) {
      const marker = isInData ? '\r\n.\r\n' : '\r\n'
      const end = text.indexOf(marker)
      if (end < 0) break
      const part = text.slice(0, end)
      text = text.slice(end + marker.length)
      if (isInData) {
        isInData = false
        onMessage({ isEncrypted: socket instanceof TLSSocket, rcptTo, text: part })
        replies += '250 2.0.0 taken\r\n'
        continue
      }
      const verb = part.slice(0, 4).toUpperCase()
      if (verb === 'QUIT') {
        socket.end(`${replies}221 2.0.0 bye\r\n`)
        return
      }
      if (verb === 'STAR' && secureContext) {
        socket.off('data', onData)
        socket.write('220 2.0.0 go on\r\n')
        const secured = new TLSSocket(socket, { isServer: true, secureContext })
        secured.on('error', () => undefined)
        converse(secured, undefined, onMessage)
        return
      }
      if (verb === 'RCPT') rcptTo = /<(.*)>/.exec(part)?.[1] ?? ''
      if (verb === 'DATA') {
        isInData = true
        // An empty message is only a dot, so the line end before the message counts as part of the end marker.
        text = `\r\n${text}`
      }
      replies += verb === 'EHLO' ? ehloReply.join('') : verb === 'DATA' ? '354 go on\r\n' : '250 2.0.0 ok\r\n'
    }
    if (replies !== '') socket.write(replies)
  }
  socket.on('data', onData)
}
