/**
 * @module Retries a start that meets a transient error, such as a full disk, a locked database or too many open files.
 * Until the database is open, the HTTP address answers 503 with the reason.
 */
import { explainDenial } from '#platform/disk/data-owner.ts'
import { isDiskFull, isLocked, isTransientError } from '#platform/disk/storage-errors.ts'
import { AppError } from '#platform/errors.ts'
import { toErrorResponse } from '#platform/http/error-response.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import type { Log } from '#platform/log/log.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import type { Config } from '#platform/settings/config.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { type Clock, sleepUntilAborted } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'
import { DataDirInUseError } from './create.ts'

export interface StartOptions {
  readonly config: Config
  readonly clock: Clock
  readonly log: Log
  /** Ends the wait; the start then rejects with its reason. */
  readonly ending: AbortSignal
}

const RETRY_DELAYS = { minMs: 250, maxMs: seconds(10) }
const LOG_INTERVAL_MS = minutes(1)
const RETRY_AFTER_SECONDS = 10

/**
 * Runs a step of the start until it succeeds. Rejects with an error that is not transient, or with the reason of
 * `ending`.
 * @param step undoes its own changes when it fails
 * @param isListening whether the HTTP server is up; if not, this function answers requests with 503
 */
export async function startWhenPossible<T>(
  step: () => T | Promise<T>,
  { config, clock, log, ending }: StartOptions,
  { isListening }: { readonly isListening: boolean },
): Promise<T> {
  let stopNotReadyServer: (() => Promise<void>) | undefined
  let failures = 0
  let loggedAtMs = Number.NEGATIVE_INFINITY
  try {
    for (;;) {
      ending.throwIfAborted()
      try {
        return await step()
      } catch (thrown) {
        const error = explainDenial(config.dataDir, thrown)
        // Between two attempts, a command may hold the data directory for a moment; that does not end the start.
        const isHeldByCommand = error instanceof DataDirInUseError && loggedAtMs > Number.NEGATIVE_INFINITY
        if (!isTransientError(error) && !isHeldByCommand) throw error
        if (clock.monotonicMs() - loggedAtMs >= LOG_INTERVAL_MS) {
          loggedAtMs = clock.monotonicMs()
          log.error({ err: error }, `cannot start yet: ${describeReason(error)}; retrying`)
        }
        if (!isListening) stopNotReadyServer ??= serveNotReady(config, describeReason(error))
      }
      await sleepUntilAborted(clock, backoffDelayMs(++failures, RETRY_DELAYS), ending)
    }
  } finally {
    await stopNotReadyServer?.()
  }
}

/** Describes the cause without paths, because /readyz shows it too. */
function describeReason(error: unknown): string {
  const cause = error instanceof AppError ? (error.cause ?? error) : error
  if (isDiskFull(error)) return 'the disk is full'
  return isLocked(cause) || error instanceof DataDirInUseError
    ? 'another process holds the database'
    : 'a disk or system error occurred'
}

function serveNotReady({ httpAddr }: Config, reason: string): (() => Promise<void>) | undefined {
  const error = new AppError(503, 'not_ready', `The service cannot start yet: ${reason}.`, {
    details: [{ field: 'database', message: `cannot be opened: ${reason}` }],
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  })
  return serveMeanwhile(httpAddr, (path) => respondNotReady(path, error))
}

/** Answers at an address while the service does not listen there. Returns a function that stops it. */
export function serveMeanwhile(addr: string, respond: (path: string) => Response): (() => Promise<void>) | undefined {
  const address = parseHostPort(addr)
  if (!address || address.port === 0) return undefined
  try {
    // A check by HTTP/1.0 has no Host, so its URL is a path.
    const fetch = (request: Request) => respond(new URL(request.url, 'http://localhost').pathname)
    const server = Bun.serve({ hostname: address.host, port: address.port, development: false, fetch })
    return () => server.stop(true)
  } catch {
    // Ignored, because the service reports an address in use when it listens at the address itself.
    return undefined
  }
}

/** Alive, but not ready. */
export const respondNotReady = (path: string, error: AppError): Response =>
  path === '/healthz' ? Response.json({ status: 'ok' }) : toErrorResponse(error, formatUuid(newUuid()))
