/** @module A receiving SMTP server that stores messages, in the test's own process. */
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'

export interface SinkMessage {
  readonly mailFrom: string
  readonly rcptTo: readonly string[]
  /** As latin1, so that every octet can be compared. */
  readonly raw: string
  readonly secure: boolean
}

export interface Sink extends AsyncDisposable {
  readonly port: number
  readonly messages: SinkMessage[]
}

/** Starts a sink on 127.0.0.1; `options` override smtp-server's. */
export async function startSink(options: SMTPServerOptions = {}): Promise<Sink> {
  const messages: SinkMessage[] = []
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS', 'AUTH'],
    logger: false,
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope
        messages.push({
          mailFrom: mailFrom === false ? '' : mailFrom.address,
          rcptTo: rcptTo.map((r) => r.address),
          raw: Buffer.concat(chunks).toString('latin1'),
          secure: session.secure,
        })
        done()
      })
    },
    ...options,
  })
  server.on('error', () => undefined)
  const port = await new Promise<number>((resolve) => {
    const listener = server.listen(0, '127.0.0.1', () => {
      const address = listener.address()
      resolve(typeof address === 'object' && address ? address.port : 0)
    })
  })
  return { port, messages, [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())) }
}
