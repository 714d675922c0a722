/**
 * @module An HTTPS server on 127.0.0.1 for tests, written on the bare TLS socket so that it can also misbehave: stay
 * silent, reset, drip, flood. Records its requests. Creates its own certificate authority; `caFile` is for
 * TASSIS_EXTRA_CA_FILE.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSecureContext, type SecureContextOptions, TLSSocket } from 'node:tls'
import { type CertificateAuthority, createCertificateAuthority, type TestCertificate } from './certificates.ts'

export interface ReceivedRequest {
  readonly method: string
  /** As in the request line: path and query. */
  readonly url: string
  /** Names in lower case; values of a repeated one are joined by `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Original names, in order. */
  readonly headerNames: readonly string[]
  /** The exact octets received. */
  readonly body: Uint8Array
  /** The body as UTF-8. */
  readonly text: string
  /** By the receiver's `now`, in ms. */
  readonly receivedAt: number
  /** Index of its connection, from 0. */
  readonly connection: number
  /** The name that the client sent in the TLS handshake (SNI). */
  readonly serverName: string | undefined
}

type Pieces = AsyncIterable<string | Uint8Array> | Iterable<Uint8Array>

/** The response to a request. Default: 200 with an empty body. */
export type HttpsReply =
  | {
      readonly status?: number
      readonly headers?: Readonly<Record<string, string>>
      /** An iterable is sent chunked, no faster than it is read. */
      readonly body?: string | Uint8Array | Pieces
      /** After the response: the connection is kept for the next request (default), ended, or reset. */
      readonly after?: 'keep' | 'end' | 'reset'
    }
  /** Exactly these octets instead of a response. */
  | { readonly raw: string | Uint8Array | Pieces; readonly after?: 'keep' | 'end' | 'reset' }
  /** No response, ever. */
  | 'hang'
  /** The connection is reset. */
  | 'reset'

/** Called for each request once its body has arrived; a pending promise delays the response. */
export type HttpsHandler = (request: ReceivedRequest) => HttpsReply | Promise<HttpsReply>

export interface HttpsReceiverOptions {
  /** Names and addresses of its certificate. */
  readonly names: readonly string[]
  /** Replaces a new authority: for several receivers that one client must trust. */
  readonly ca?: CertificateAuthority
  /** Replaces a certificate for `names` from the authority. */
  readonly certificate?: TestCertificate
  /** Sent to a new connection instead of a TLS handshake. */
  readonly handshake?: 'silence' | 'garbage' | 'drop'
  readonly tls?: Pick<SecureContextOptions, 'minVersion' | 'maxVersion'>
  /** Address to listen on; default 127.0.0.1. */
  readonly host?: string
  /** The clock of `receivedAt`; default: the system's. */
  readonly now?: () => number
}

export interface HttpsReceiver extends AsyncDisposable {
  readonly port: number
  /** All requests so far, in the order in which they were complete. */
  readonly requests: ReceivedRequest[]
  /** Accepted and open connections. */
  readonly connections: { readonly accepted: number; readonly open: number }
  /** Octets sent to clients, before TLS. */
  readonly sentBytes: number
  readonly ca: CertificateAuthority
  readonly caPem: string
  /** The same in a file that exists until the receiver is closed. */
  readonly caFile: string
  /** `https://name:port/path`; default: the first of `names`. */
  url(name?: string, path?: string): string
  /** Sets the response to all further requests. */
  answer(answer: HttpsReply | HttpsHandler): void
  /** Resolves with the requests once there are `count` of them. */
  received(count: number): Promise<readonly ReceivedRequest[]>
  /** Closes all connections; the receiver still accepts new ones. */
  dropConnections(): void
  close(): Promise<void>
}

/** Starts a receiver on a free port. */
export async function startHttpsReceiver(options: HttpsReceiverOptions): Promise<HttpsReceiver> {
  const { names, ca = createCertificateAuthority(), now = () => Date.now(), host = '127.0.0.1' } = options
  const certificate = options.certificate ?? ca.issue(names)
  const secureContext = createSecureContext({ ...certificate, ...options.tls })
  const requests: ReceivedRequest[] = []
  const waiting = new Set<() => void>()
  const sockets = new Set<Socket>()
  const counts = { accepted: 0, sentBytes: 0 }
  let handler: HttpsHandler = () => ({})

  const server = createServer((raw) => {
    const connection = counts.accepted++
    sockets.add(raw)
    raw.on('error', () => {})
    raw.on('close', () => sockets.delete(raw))
    if (options.handshake !== undefined) {
      // Without this the end of the connection would never be noticed.
      raw.resume()
      if (options.handshake === 'drop') raw.destroy()
      if (options.handshake === 'garbage') raw.write('220 no TLS here\r\n')
      return
    }
    let serverName: string | undefined
    const tls = new TLSSocket(raw, {
      isServer: true,
      secureContext,
      ...certificate,
      ...options.tls,
      SNICallback: (name, done) => {
        serverName = name
        done(null)
      },
    })
    tls.on('error', () => raw.destroy())
    void serve(tls, async (request) => {
      const received = { ...request, receivedAt: now(), connection, serverName }
      requests.push(received)
      for (const check of waiting) check()
      return await send(tls, raw, await handler(received), counts)
    }).catch(() => raw.destroy())
  })
  server.listen(0, host)
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const folder = mkdtempSync(join(tmpdir(), 'tassis-receiver-'))
  const caFile = join(folder, 'ca.pem')
  writeFileSync(caFile, ca.pem)

  const dropConnections = () => {
    for (const socket of sockets) socket.destroy()
  }
  const close = async () => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    dropConnections()
    await closed
    rmSync(folder, { recursive: true, force: true })
  }
  return {
    port,
    requests,
    ca,
    caPem: ca.pem,
    caFile,
    get connections() {
      return { accepted: counts.accepted, open: sockets.size }
    },
    get sentBytes() {
      return counts.sentBytes
    },
    url: (name = names[0] ?? host, path = '/') => `https://${name.includes(':') ? `[${name}]` : name}:${port}${path}`,
    answer(next) {
      handler = typeof next === 'function' ? next : () => next
    },
    received: (count) =>
      new Promise((resolve) => {
        const check = () => {
          if (requests.length < count) return
          waiting.delete(check)
          resolve(requests)
        }
        waiting.add(check)
        check()
      }),
    dropConnections,
    close,
    [Symbol.asyncDispose]: close,
  }
}

type ParsedRequest = Omit<ReceivedRequest, 'receivedAt' | 'connection' | 'serverName'>

/** Reads requests one after the other; `answer` returns whether another may follow. */
async function serve(tls: TLSSocket, answer: (request: ParsedRequest) => Promise<boolean>): Promise<void> {
  let pending = Buffer.alloc(0)
  for await (const chunk of tls) {
    pending = Buffer.concat([pending, chunk])
    for (;;) {
      const parsed = parseRequest(pending)
      if (parsed === undefined) break
      pending = pending.subarray(parsed.lengthBytes)
      if (!(await answer(parsed.request))) return
    }
  }
  tls.end()
}

function parseRequest(bytes: Buffer): { readonly request: ParsedRequest; readonly lengthBytes: number } | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd === -1) return undefined
  const [requestLine = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n')
  const [method = '', url = ''] = requestLine.split(' ')
  const headers: Record<string, string> = {}
  const headerNames: string[] = []
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon)
    const value = line.slice(colon + 1).trim()
    const key = name.toLowerCase()
    headerNames.push(name)
    headers[key] = headers[key] === undefined ? value : `${headers[key]}, ${value}`
  }
  if (headers['transfer-encoding'] !== undefined) throw new Error('this receiver reads no chunked requests')
  const lengthBytes = headEnd + 4 + Number(headers['content-length'] ?? 0)
  if (bytes.length < lengthBytes) return undefined
  const body = Uint8Array.from(bytes.subarray(headEnd + 4, lengthBytes))
  const text = Buffer.from(body).toString('utf8')
  return { request: { method, url, headers, headerNames, body, text }, lengthBytes }
}

/** True when the connection is kept. */
async function send(tls: TLSSocket, raw: Socket, answer: HttpsReply, counts: { sentBytes: number }): Promise<boolean> {
  const write = async (bytes: string | Uint8Array) => {
    if (tls.destroyed) throw new Error('the client is gone')
    counts.sentBytes += bytes.length
    if (tls.write(bytes)) return
    const gone = new AbortController()
    const end = () => gone.abort()
    raw.once('close', end)
    try {
      await once(tls, 'drain', { signal: gone.signal })
    } finally {
      raw.off('close', end)
    }
  }
  if (answer === 'hang') return new Promise(() => {})
  if (answer === 'reset') {
    raw.resetAndDestroy()
    return false
  }
  if ('raw' in answer) {
    if (typeof answer.raw === 'string' || answer.raw instanceof Uint8Array) await write(answer.raw)
    else for await (const piece of answer.raw) await write(piece)
  } else {
    const { status = 200, headers = {}, body = '' } = answer
    const isWhole = typeof body === 'string' || body instanceof Uint8Array
    const length = isWhole ? { 'content-length': String(Buffer.byteLength(body)) } : { 'transfer-encoding': 'chunked' }
    const fields = { ...length, ...headers, ...(answer.after === 'end' && { connection: 'close' }) }
    const head = [
      `HTTP/1.1 ${status} ${status < 300 ? 'OK' : 'Not so'}`,
      ...Object.entries(fields).map(([k, v]) => `${k}: ${v}`),
    ]
    await write(`${head.join('\r\n')}\r\n\r\n`)
    if (isWhole) {
      if (body.length > 0) await write(body)
    } else {
      for await (const piece of body) {
        const bytes = Buffer.from(piece)
        await write(Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]))
      }
      await write('0\r\n\r\n')
    }
  }
  if (answer.after === 'end') tls.end()
  if (answer.after === 'reset') raw.resetAndDestroy()
  return answer.after === undefined || answer.after === 'keep'
}

/** Yields this many octets in chunks of 64 KiB: a body too large to hold. */
export function* hugeBody(sizeBytes: number): Generator<Uint8Array> {
  const piece = new Uint8Array(65_536).fill(0x61)
  for (let left = sizeBytes; left > 0; left -= piece.length) yield left < piece.length ? piece.subarray(0, left) : piece
}

/** Repeats `text` in real time until the client has disconnected. */
export async function* drip(text: string, everyMs: number): AsyncGenerator<string> {
  for (;;) {
    yield text
    await Bun.sleep(everyMs)
  }
}
