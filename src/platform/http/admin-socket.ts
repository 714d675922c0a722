/**
 * @module The admin socket, over which commands reach a running service: `admin.sock` in the data directory, mode 0600.
 * It serves the API for the operator (`admin-fetch.ts`), to commands of the same version. Never reachable over the
 * network.
 */
import { chmodSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { ConfigError } from '#platform/settings/config.ts'
import type { Clock } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'

export interface AdminSocketOptions {
  readonly dataDir: string
  readonly version: string
  /** Serves a request to /v1 for the operator. */
  readonly fetch: (request: Request) => Promise<Response>
  readonly clock: Clock
}

/** `sun_path` holds 108 octets on Linux and 104 elsewhere, including the final NUL. */
const MAX_PATH_BYTES = 103
/** How long a command waits for a service that does not respond. */
export const RESPONSE_TIMEOUT_MS = seconds(10)
const STOP_GRACE_MS = seconds(5)
const VERSION_HEADER = 'tassis-version'
/**
 * A DNS check or a stream of events may be silent for long. On a Unix socket `Server.timeout` has no effect; this has,
 * although its type does not allow it.
 */
const NO_IDLE_TIMEOUT: object = { idleTimeout: 0 }
/** Answered by each service at once, without a look at its data. */
const PING = 'ping'

/** Returns the socket's path, absolute if short enough, else relative; undefined when both are too long. */
export function adminSocketPath(dataDir: string): string | undefined {
  const absolute = join(dataDir, 'admin.sock')
  const relativePath = `./${relative('.', absolute)}`
  return [absolute, relativePath].find((path) => Buffer.byteLength(path) <= MAX_PATH_BYTES)
}

export const createPathTooLongError = (dataDir: string): ConfigError =>
  new ConfigError(
    `TASSIS_DATA_DIR is "${dataDir}", which is too long for the admin socket (at most ${MAX_PATH_BYTES} bytes with its file name); use a shorter path.`,
  )

/** Listens. The caller holds the lock of the data directory, so an existing socket is stale and is removed. */
export function startAdminSocket(options: AdminSocketOptions): { stop(): Promise<void> } {
  const { dataDir, clock } = options
  const path = adminSocketPath(dataDir)
  if (path === undefined) throw createPathTooLongError(dataDir)
  rmSync(path, { force: true })
  // The socket file must never exist with wider permissions than 0600.
  const umask = process.umask(0o177)
  let server: Bun.Server<undefined>
  try {
    server = Bun.serve({
      unix: path,
      development: false,
      // The API refuses it with a sentence.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      ...NO_IDLE_TIMEOUT,
      fetch: (request) => serveCall(options, request),
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

async function serveCall({ version, fetch }: AdminSocketOptions, request: Request): Promise<Response> {
  const name = new URL(request.url).pathname.slice(1)
  const clientVersion = request.headers.get(VERSION_HEADER)
  if (clientVersion !== version) {
    return toErrorResponse(
      409,
      'version_mismatch',
      `The running service is version ${version} and this command is version ${clientVersion ?? 'unknown'}; use the same version, or restart the service.`,
    )
  }
  if (name === PING) return new Response(null, { status: 204 })
  if (name.startsWith('v1/')) return fetch(request)
  return toErrorResponse(404, 'unknown_path', `The admin socket serves paths below /v1, not /${name}.`)
}

const toErrorResponse = (status: number, code: string, message: string): Response =>
  Response.json({ code, message }, { status })

/** Sends a request to the service that owns `dataDir`. Rejects as `fetch` does. */
export function fetchAdminSocket(dataDir: string, version: string, url: string, init: RequestInit): Promise<Response> {
  const unix = adminSocketPath(dataDir)
  if (unix === undefined) throw createPathTooLongError(dataDir)
  const headers = { ...Object.fromEntries(new Headers(init.headers)), [VERSION_HEADER]: version, connection: 'close' }
  return fetch(url, { ...init, headers, unix, timeout: false } as BunFetchRequestInit)
}

export type AdminReply<T = unknown> =
  | { readonly kind: 'ok'; readonly value: T }
  /** The message is one sentence for a person, the code a name for programs. */
  | { readonly kind: 'refused'; readonly message: string; readonly code: string }
  /** No service listens: none is running, or it is starting or stopping. */
  | { readonly kind: 'nobody' }
  /** A process listens but does not respond in time. */
  | { readonly kind: 'silent' }

export async function pingService(dataDir: string, version: string): Promise<AdminReply<null>> {
  if (adminSocketPath(dataDir) === undefined) return { kind: 'nobody' }
  const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS)
  try {
    const response = await fetchAdminSocket(dataDir, version, `http://tassis/${PING}`, { signal })
    if (response.ok) return { kind: 'ok', value: null }
    return { kind: 'refused', ...((await response.json()) as { readonly message: string; readonly code: string }) }
  } catch {
    return { kind: signal.aborted ? 'silent' : 'nobody' }
  }
}
