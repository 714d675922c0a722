/**
 * @module The admin socket: how commands reach a running service. `admin.sock` in the data directory, for its owner only (mode 0600); each call
 * is one HTTP request, POST /{operation} with the input as JSON. Knows no operation. Never reachable over the network.
 */
import { chmodSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { Clock } from '#platform/clock.ts'
import { ConfigError } from '#platform/config.ts'
import { AppError } from '#platform/errors.ts'
import type { Log } from '#platform/log.ts'
import { seconds } from '#platform/units.ts'

/** What a call does in the service; throws AppError for a refusal. */
export type AdminHandler = (input: unknown) => unknown

export interface AdminSocketOptions {
  readonly dataDir: string
  readonly version: string
  readonly handlers: ReadonlyMap<string, AdminHandler>
  readonly maxRequestBytes: number
  readonly clock: Clock
  readonly log: Log
}

/** sun_path of Linux has 108 octets with its end, that of other systems 104. */
const MAX_PATH_BYTES = 103
const MAX_CONCURRENT_CALLS = 16
/** How long a command waits for a service that says nothing. */
export const RESPONSE_TIMEOUT_MS = seconds(10)
const STOP_GRACE_MS = seconds(5)
const VERSION_HEADER = 'tassis-version'

/** The socket's path, the shorter of absolute and relative; undefined when both are too long for a socket. */
export function adminSocketPath(dataDir: string): string | undefined {
  const absolute = join(dataDir, 'admin.sock')
  const relativePath = `./${relative('.', absolute)}`
  return [absolute, relativePath].find((path) => Buffer.byteLength(path) <= MAX_PATH_BYTES)
}

export const createPathTooLongError = (dataDir: string): ConfigError =>
  new ConfigError(
    `TASSIS_DATA_DIR is "${dataDir}", which is too long for the admin socket in it (at most ${MAX_PATH_BYTES} bytes with its name); give a shorter path.`,
  )

/** Listens. The caller holds the lock of the data directory, so a socket that lies there is a dead one's and is removed. */
export function startAdminSocket(options: AdminSocketOptions): { stop(): Promise<void> } {
  const { dataDir, clock } = options
  const path = adminSocketPath(dataDir)
  if (path === undefined) throw createPathTooLongError(dataDir)
  rmSync(path, { force: true })
  let calls = 0
  // The socket must never be there with more rights than it will have.
  const umask = process.umask(0o177)
  let server: Bun.Server<undefined>
  try {
    server = Bun.serve({
      unix: path,
      development: false,
      maxRequestBodySize: options.maxRequestBytes,
      async fetch(request, listener) {
        if (calls >= MAX_CONCURRENT_CALLS)
          return toErrorResponse(503, 'The service is busy with other commands; try again.')
        calls++
        // A look at DNS or a large answer takes as long as it takes.
        listener.timeout(request, 0)
        try {
          return await serveCall(options, request)
        } finally {
          calls--
        }
      },
    })
  } finally {
    process.umask(umask)
  }
  chmodSync(path, 0o600)
  return {
    async stop() {
      const timer = clock.after(STOP_GRACE_MS, () => void server.stop(true))
      await server.stop()
      timer.cancel()
      rmSync(path, { force: true })
    },
  }
}

async function serveCall({ handlers, version, log }: AdminSocketOptions, request: Request): Promise<Response> {
  const name = new URL(request.url).pathname.slice(1)
  const clientVersion = request.headers.get(VERSION_HEADER)
  if (clientVersion !== version) {
    return toErrorResponse(
      409,
      `The running service is version ${version} and this command version ${clientVersion ?? 'unknown'}; use the same one, or restart the service.`,
    )
  }
  const handler = handlers.get(name)
  if (!handler || request.method !== 'POST') return toErrorResponse(404, `The running service does not know "${name}".`)
  try {
    return Response.json({ value: (await handler(await request.json())) ?? null })
  } catch (error) {
    if (error instanceof AppError) return toErrorResponse(error.status, error.message)
    log.error({ err: error, operation: name }, 'a command failed')
    return toErrorResponse(500, 'The running service could not do it; its log says why.')
  }
}

const toErrorResponse = (status: number, error: string): Response => Response.json({ error }, { status })

export type AdminReply =
  | { readonly kind: 'ok'; readonly value: unknown }
  /** One sentence for a person. */
  | { readonly kind: 'refused'; readonly message: string }
  /** No service answers: none runs, or it is just starting or stopping. */
  | { readonly kind: 'nobody' }
  /** Somebody listens and says nothing in time. */
  | { readonly kind: 'silent' }

/**
 * Asks the service that owns `dataDir`, if one is there.
 * @param signal ends the wait for the answer, which is then `silent`
 */
export async function callAdminSocket(
  dataDir: string,
  call: { readonly version: string; readonly operation: string; readonly input: unknown },
  signal: AbortSignal,
): Promise<AdminReply> {
  const unix = adminSocketPath(dataDir)
  if (unix === undefined) return { kind: 'nobody' }
  let response: Response
  let body: { readonly value?: unknown; readonly error?: string }
  try {
    response = await fetch(`http://tassis/${call.operation}`, {
      unix,
      method: 'POST',
      headers: { [VERSION_HEADER]: call.version, connection: 'close' },
      body: JSON.stringify(call.input),
      timeout: false,
      signal,
    } as BunFetchRequestInit)
    body = (await response.json()) as typeof body
  } catch {
    return { kind: signal.aborted ? 'silent' : 'nobody' }
  }
  if (response.ok) return { kind: 'ok', value: body.value }
  return { kind: 'refused', message: body.error ?? `The running service answered with status ${response.status}.` }
}
