import { expect, test } from 'bun:test'
import { connect as connectTcp, createServer, type Socket } from 'node:net'
import { connect, createSecureContext, type TLSSocket } from 'node:tls'
import { Elysia } from 'elysia'
import { closeIdleConnections } from '#platform/http/connection-guard.ts'
import { systemClock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import { eventually } from '#test/support/app.ts'
import { createCertificateAuthority } from '#test/support/certificates.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startTestServer, type TestServer, type TestServerOptions } from './fixture.ts'

const authority = createCertificateAuthority()
const contextOf = (name: string) => createSecureContext(authority.issue([name]))
const PROBE = { protocol: 'acme-tls/1', context: contextOf('probe.test') }

interface TlsServer extends AsyncDisposable {
  readonly server: TestServer
  readonly port: number
  readonly contexts: Map<string, ReturnType<typeof contextOf>>
  isProbed: boolean
  /** Handshakes that have begun. */
  handshakes: number
}

async function startTls(options: TestServerOptions = {}): Promise<TlsServer> {
  const server = startTestServer(options)
  const fallback = contextOf('default.test')
  const contexts = new Map([['a.test', contextOf('a.test')]])
  const tls: Omit<TlsServer, 'port'> = {
    server,
    contexts,
    isProbed: false,
    handshakes: 0,
    [Symbol.asyncDispose]: () => server.http.stop(0),
  }
  const { port } = await server.http.listenTls('127.0.0.1', 0, {
    contextFor: (name) => {
      tls.handshakes++
      return contexts.get(name) ?? fallback
    },
    probe: () => (tls.isProbed ? PROBE : undefined),
  })
  return Object.assign(tls, { port })
}

interface Client extends Disposable {
  readonly socket: TLSSocket
  /** Name of the server's certificate. */
  readonly name: string | undefined
  /** Sends a GET and resolves with the body of the response. */
  get(path: string, headers?: string): Promise<string>
}

/** Connects and verifies the certificate's issuer. Rejects when the handshake fails. */
function connectTls(port: number, servername: string, ALPNProtocols?: string[]): Promise<Client> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      port,
      host: '127.0.0.1',
      servername,
      ca: authority.pem,
      checkServerIdentity: () => undefined,
      ...(ALPNProtocols && { ALPNProtocols }),
    })
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('closed')))
    let text = ''
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString()
    })
    socket.on('secureConnect', () =>
      resolve({
        socket,
        name: socket.getPeerCertificate().subjectaltname,
        async get(path, headers = '') {
          text = ''
          socket.write(`GET ${path} HTTP/1.1\r\nHost: a.test\r\n${headers}\r\n`)
          return await eventually(() => /\r\n\r\n(.+)$/s.exec(text)?.[1])
        },
        [Symbol.dispose]: () => void socket.destroy(),
      }),
    )
  })
}

test('the certificate is chosen by name for each connection; a new one does not end open connections', async () => {
  await using tls = await startTls()
  using first = await connectTls(tls.port, 'a.test')
  using other = await connectTls(tls.port, 'b.test')
  tls.contexts.set('b.test', contextOf('b.test'))
  using again = await connectTls(tls.port, 'b.test')
  expect([first.name, other.name, again.name]).toEqual(['DNS:a.test', 'DNS:default.test', 'DNS:b.test'])
  for (const client of [first, other, again, first]) expect(await client.get('/healthz')).toBe('{"status":"ok"}')
})

test('requests have the address of the client, and X-Forwarded-For counts only from a trusted proxy', async () => {
  await using tls = await startTls({ trustedProxies: ['127.0.0.3'] })
  const addresses: string[] = []
  for (const source of ['127.0.0.2', '127.0.0.3']) {
    await using child = Bun.spawn(
      [
        ...['curl', '--silent', '--insecure', '--interface', source, '--header', 'X-Forwarded-For: 192.0.2.7'],
        `https://127.0.0.1:${tls.port}/address`,
      ],
      { stdout: 'pipe' },
    )
    addresses.push(await child.stdout.text())
  }
  expect(addresses).toEqual(['127.0.0.2', '192.0.2.7'])
})

test('only a client that offers the protocol of a probe alone gets its certificate, however its octets arrive', async () => {
  await using tls = await startTls()
  await expect(connectTls(tls.port, 'a.test', ['acme-tls/1'])).rejects.toThrow()
  tls.isProbed = true
  await using relay = await startSlowRelay(tls.port)
  for (const port of [tls.port, relay.port]) {
    using probing = await connectTls(port, 'a.test', ['acme-tls/1'])
    using usual = await connectTls(port, 'a.test', ['http/1.1', 'acme-tls/1'])
    using without = await connectTls(port, 'a.test')
    expect([probing.name, usual.name, without.name]).toEqual(['DNS:probe.test', 'DNS:a.test', 'DNS:a.test'])
    expect(probing.socket.alpnProtocol).toBe('acme-tls/1')
    expect(await without.get('/healthz')).toBe('{"status":"ok"}')
  }
})

test.each([
  ['nothing', '', false],
  ['nothing during a probe', '', true],
  ['half a handshake', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', false],
  ['half a handshake during a probe', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', true],
  ['a record with half a handshake', '\x16\x03\x01\x00\x04\x01\x00\x01\xfc', false],
  ['a record with half a handshake during a probe', '\x16\x03\x01\x00\x04\x01\x00\x01\xfc', true],
])('a client that sends %s is disconnected after 10 seconds', async (_, octets, isProbed) => {
  const clock = new ManualClock()
  await using tls = await startTls({ clock })
  tls.isProbed = isProbed
  const socket = connectTcp(tls.port, '127.0.0.1')
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()).on('error', () => undefined))
  await new Promise<void>((resolve) => socket.on('connect', () => resolve()))
  socket.write(octets, 'latin1')
  // A probe begins its handshake with the first whole record.
  const isRecord = octets.length === 9
  await eventually(() => clock.msUntilNextTimer() <= seconds(10) && (tls.handshakes > 0 || (isProbed && !isRecord)))
  clock.advance(seconds(10))
  await closed
})

test.each([
  ['plain HTTP', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n', false],
  ['plain HTTP during a probe', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n', true],
  ['an endless handshake', `\x16\x03\x01\x00\x04${'\xff'.repeat(4)}`, false],
  ['an endless handshake during a probe', `\x16\x03\x01\x00\x04${'\xff'.repeat(4)}`, true],
])('%s ends its own connection only', async (_, octets, isProbed) => {
  await using tls = await startTls()
  tls.isProbed = isProbed
  const socket = connectTcp(tls.port, '127.0.0.1', () => socket.write(octets, 'latin1')).resume()
  await new Promise<void>((resolve) => socket.on('close', () => resolve()).on('error', () => undefined))
  using client = await connectTls(tls.port, 'a.test')
  expect(await client.get('/healthz')).toBe('{"status":"ok"}')
})

test('connections without a complete handshake can be closed as idle, others by their inner connection', async () => {
  await using tls = await startTls()
  using client = await connectTls(tls.port, 'a.test')
  const silent = ['', '\x16\x03\x01\x02\x00\x01'].map((start) =>
    connectTcp({ port: tls.port, host: '127.0.0.1' }, function (this: Socket) {
      if (start !== '') this.write(start, 'latin1')
    }).resume(),
  )
  const closed = Promise.all(silent.map((socket) => new Promise((resolve) => socket.on('close', resolve))))
  await eventually(() => tls.handshakes >= 3)
  expect(closeIdleConnections(10, new Set([tls.port]), new Set([client.socket.localPort ?? 0]))).toBe(2)
  await closed
  expect(client.socket.destroyed).toBe(false)
})

test('stopping lets a request in progress finish, and accepts no other', async () => {
  const started = Promise.withResolvers<void>()
  const finish = Promise.withResolvers<void>()
  const routes = [
    new Elysia().get('/slow', async () => {
      started.resolve()
      await finish.promise
      return 'done'
    }),
  ]
  const tls = await startTls({ routes, clock: systemClock })
  using client = await connectTls(tls.port, 'a.test')
  const response = client.get('/slow')
  await started.promise
  const stopped = tls.server.http.stop(60_000)
  await expect(connectTls(tls.port, 'a.test')).rejects.toThrow()
  finish.resolve()
  expect(await response).toBe('done')
  await stopped
})

test('a client that reads slowly slows down the response; nothing is held in memory', async () => {
  let sentBytes = 0
  const chunk = new Uint8Array(64 * 1024)
  const routes = [
    new Elysia().get(
      '/large',
      () =>
        new Response(
          new ReadableStream({
            pull(controller) {
              sentBytes += chunk.length
              controller.enqueue(chunk)
            },
          }),
        ),
    ),
  ]
  await using tls = await startTls({ routes })
  using client = await connectTls(tls.port, 'a.test')
  client.socket.pause()
  client.socket.write('GET /large HTTP/1.1\r\nHost: a.test\r\n\r\n')
  let before = -1
  // Until the buffers between both ends are full: what follows is the same twice.
  await eventually(async () => {
    const isSame = sentBytes > 0 && sentBytes === before
    before = sentBytes
    await Bun.sleep(200)
    return isSame && sentBytes === before
  })
  expect(sentBytes).toBeLessThan(32 * 1024 * 1024)
})

/** Passes octets on one by one. */
async function startSlowRelay(target: number): Promise<{ readonly port: number } & AsyncDisposable> {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    const inner = connectTcp({ port: target, host: '127.0.0.1', noDelay: true })
    sockets.push(socket, inner)
    for (const one of [socket, inner]) one.on('error', () => undefined)
    let last = Promise.resolve()
    socket.on('data', (data: Buffer) => {
      last = last.then(async () => {
        for (const octet of data) {
          await new Promise((resolve) => setImmediate(resolve))
          inner.write(Buffer.of(octet))
        }
      })
    })
    inner.pipe(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  const address = server.address()
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
