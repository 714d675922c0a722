/** @module A gateway in front of a service that loses, delays and replaces responses, for tests. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What happens to a request: it is served as usual, or else. */
export type Behaviour =
  /** The service serves it. */
  | 'serve'
  /** The service serves it, and the connection is cut instead of its response. */
  | 'lose'
  /** The connection is cut within the body of the response. */
  | 'truncate'
  /** Nothing happens. */
  | 'hang'
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string }

export interface Gateway extends AsyncDisposable {
  readonly url: string
  /** All requests so far, as method, path and idempotency key. */
  readonly requests: { readonly method: string; readonly path: string; readonly key: string | undefined }[]
  /** Sets what happens to the next requests, one after the other; then they are served. */
  plan(...behaviours: readonly Behaviour[]): void
}

export async function startGateway(target: string): Promise<Gateway> {
  const requests: Gateway['requests'] = []
  const planned: Behaviour[] = []
  const server = createServer(async (request, response) => {
    const { method = '', url: path = '', headers } = request
    requests.push({ method, path, key: headers['idempotency-key'] as string | undefined })
    await behave(planned.shift() ?? 'serve', request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    plan: (...behaviours) => {
      requests.length = 0
      planned.splice(0, planned.length, ...behaviours)
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }

  async function behave(behaviour: Behaviour, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (behaviour === 'hang') return
    if (typeof behaviour === 'object') {
      response.writeHead(behaviour.status, behaviour.headers).end(behaviour.body)
      return
    }
    const served = await forward(request)
    const body = Buffer.from(await served.arrayBuffer())
    if (behaviour === 'lose') {
      request.socket.destroy()
      return
    }
    served.headers.delete('transfer-encoding')
    response.writeHead(served.status, { ...Object.fromEntries(served.headers), 'content-length': body.length })
    if (behaviour === 'serve') response.end(body)
    else response.write(body.subarray(0, body.length / 2), () => request.socket.destroy())
  }

  async function forward(request: IncomingMessage): Promise<Response> {
    const { method = '', url: path = '', headers } = request
    const chunks: Uint8Array<ArrayBuffer>[] = []
    for await (const chunk of request) chunks.push(chunk)
    return fetch(`${target}${path}`, {
      method,
      headers: headers as Record<string, string>,
      ...(chunks.length > 0 && { body: new Blob(chunks) }),
      decompress: false,
    })
  }
}
