import { expect, test } from 'bun:test'
import type { AddressInfo } from 'node:net'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { testCertificate } from '#test/support/scripted-smtp.ts'
import { openSession, transaction } from './smtp-session.ts'

interface Received {
  from: string
  to: string[]
  user: string | undefined
  secure: boolean
  message: Buffer
}

/** The smtp-server package, an independent implementation. */
async function startRealServer(options: SMTPServerOptions) {
  const received: Received[] = []
  const server = new SMTPServer({
    ...testCertificate,
    logger: false,
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope
        received.push({
          from: mailFrom ? mailFrom.address : '',
          to: rcptTo.map((recipient) => recipient.address),
          user: session.user,
          secure: session.secure,
          message: Buffer.concat(chunks),
        })
        done()
      })
    },
    ...options,
  })
  const listener = server.listen(0, '127.0.0.1')
  await new Promise<void>((resolve) => listener.on('listening', () => resolve()))
  return {
    port: (listener.address() as AddressInfo).port,
    received,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())),
  }
}

test('smtp-server accepts 5 MiB over STARTTLS with AUTH, octet for octet, then rejects and accepts more on the same session', async () => {
  await using server = await startRealServer({
    onAuth: (auth, _session, done) =>
      auth.password === 'secret' ? done(null, { user: auth.username }) : done(new Error('no')),
    onRcptTo: (address, _session, done) =>
      address.address.startsWith('nobody')
        ? done(Object.assign(new Error('no such user'), { responseCode: 550 }))
        : done(),
  })
  await using client = await openSession(server, {
    tls: 'required',
    verifyCertificate: true,
    ca: testCertificate.cert,
    auth: { user: 'sender', password: 'secret' },
  })
  const line = (i: number) => `${'.'.repeat(i % 3)}${i} ${'ä'.repeat(i % 40)}\r\n`
  let message = Buffer.from(Array.from({ length: 110_000 }, (_, i) => line(i)).join(''))
  message = Buffer.concat([message.subarray(0, 5 * 1024 * 1024 - 2), Buffer.from('\r\n')])
  const result = await client.send(transaction({ message: [message], eightBit: true }))
  expect(result).toMatchObject({ kind: 'accepted', reply: { code: 250 } })
  expect(await client.send(transaction({ rcptTo: 'nobody@example.test' }))).toMatchObject({
    kind: 'refused',
    phase: 'rcpt',
    reply: { code: 550 },
  })
  const empty = Buffer.alloc(0)
  expect((await client.send(transaction({ message: [empty], mailFrom: '' }))).kind).toBe('accepted')
  const common = { to: ['user@example.test'], user: 'sender', secure: true }
  expect(server.received.map(({ message: bytes, ...rest }) => ({ ...rest, bytes: bytes.length }))).toEqual([
    { ...common, from: 'bounce@sender.test', bytes: 5 * 1024 * 1024 },
    { ...common, from: '', bytes: 0 },
  ])
  expect(server.received[0]?.message.equals(message)).toBe(true)
})
