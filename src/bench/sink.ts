/**
 * @module The SMTP sink of the benchmark: accepts and counts every message as fast as one process can. Parses only the
 * SMTP dialogue. The service reaches it through DNS like any receiver.
 */
import { createServer, type Server, type Socket } from 'node:net'
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls'

export interface BenchSink {
  readonly port: number
  /** Returns the number of messages accepted so far. */
  count(): number
  /** Returns how many of them came over TLS. */
  countEncrypted(): number
  /** Returns how many of them were DKIM-signed. */
  countSigned(): number
  close(): void
}

/** In PEM. */
export interface SinkCertificate {
  readonly cert: string
  readonly key: string
}

const END_OF_DATA = Buffer.from('\r\n.\r\n')
const SIGNATURE = Buffer.from('DKIM-Signature:')
const GREETING = '220 mx.bench.test ESMTP\r\n'
const EHLO_REPLY = '250-mx.bench.test\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SIZE 52428800\r\n'

/**
 * Starts the sink on a free port of 127.0.0.1.
 * @param certificate of STARTTLS, which is not offered without one
 */
export async function startBenchSink(certificate?: SinkCertificate): Promise<BenchSink> {
  let taken = 0
  let encrypted = 0
  let signed = 0
  const secureContext = certificate && createSecureContext({ ...certificate })
  const onMessage = ({ isEncrypted, isSigned }: SunkMessage) => {
    taken++
    if (isEncrypted) encrypted++
    if (isSigned) signed++
  }
  const server = createServer({ noDelay: true }, (socket) => {
    socket.write(GREETING)
    serve(socket, onMessage, secureContext)
  })
  const port = await listen(server)
  return {
    port,
    count: () => taken,
    countEncrypted: () => encrypted,
    countSigned: () => signed,
    close: () => void server.close(),
  }
}

interface SunkMessage {
  readonly isEncrypted: boolean
  readonly isSigned: boolean
}

/** @param secureContext for STARTTLS; undefined if it is not offered */
function serve(socket: Socket, onMessage: (message: SunkMessage) => void, secureContext?: SecureContext): void {
  let commands = ''
  let isInData = false
  let isSigned = false
  /** The last octets of DATA, which may begin the end marker. */
  let tail: Buffer = Buffer.alloc(0)

  const onData = (chunk: Buffer): void => {
    let rest: Buffer = chunk
    while (rest.length > 0) {
      if (!isInData) {
        commands += rest.toString('latin1')
        rest = Buffer.from(answerCommands(), 'latin1')
        if (!isInData) return
        continue
      }
      const seen: Buffer = tail.length > 0 ? Buffer.concat([tail, rest]) : rest
      isSigned ||= seen.includes(SIGNATURE)
      const end = seen.indexOf(END_OF_DATA)
      if (end < 0) {
        tail = Buffer.from(seen.subarray(-(END_OF_DATA.length - 1)))
        return
      }
      isInData = false
      tail = Buffer.alloc(0)
      onMessage({ isEncrypted: socket instanceof TLSSocket, isSigned })
      isSigned = false
      socket.write('250 2.0.0 taken\r\n')
      rest = seen.subarray(end + END_OF_DATA.length)
    }
  }

  /** Answers complete commands; returns what follows a DATA. */
  const answerCommands = (): string => {
    let replies = ''
    for (let end = commands.indexOf('\r\n'); end >= 0; end = commands.indexOf('\r\n')) {
      const verb = commands.slice(0, 4).toUpperCase()
      commands = commands.slice(end + 2)
      if (verb === 'DATA') {
        isInData = true
        // An empty message is only a dot, so the line end before the message counts as part of the end marker.
        tail = Buffer.from('\r\n')
        socket.write(`${replies}354 go on\r\n`)
        const rest = commands
        commands = ''
        return rest
      }
      if (verb === 'STAR' && secureContext) {
        startTls(secureContext)
        return ''
      }
      const ehloReply = secureContext ? EHLO_REPLY.replace('\r\n250 ', '\r\n250-STARTTLS\r\n250 ') : EHLO_REPLY
      replies += verb === 'EHLO' ? ehloReply : verb === 'QUIT' ? '221 2.0.0 bye\r\n' : '250 2.0.0 ok\r\n'
      if (verb === 'QUIT') {
        socket.end(replies)
        return ''
      }
    }
    if (replies !== '') socket.write(replies)
    return ''
  }

  const startTls = (context: SecureContext): void => {
    socket.off('data', onData)
    socket.write('220 2.0.0 go on\r\n')
    serve(new TLSSocket(socket, { isServer: true, secureContext: context }), onMessage)
  }

  socket.on('data', onData)
  socket.on('error', () => undefined)
}

const listen = (server: Server): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      resolve(typeof address === 'object' && address ? address.port : 0)
    })
  })
