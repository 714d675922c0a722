/**
 * @module Makes one attempt at one webhook: signs and posts the body, and classifies the response. Stores nothing and
 * decides nothing about retries.
 */
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { FetchFailureCause, FetchOutcome } from '#platform/safe-fetch.ts'
import { seconds } from '#platform/units.ts'
import { createRequestHeaders, type SignedRequest, type SigningSecrets } from './signature.ts'

/** Time limit from the lookup of the host name to the end of the response. */
const ATTEMPT_TIMEOUT_MS = seconds(10)
/** How much of a response body the history stores. */
const MAX_STORED_RESPONSE_BYTES = 1000

export interface AttemptRequest extends Omit<SignedRequest, 'at'> {
  readonly url: string
  readonly secrets: SigningSecrets
  readonly signal: AbortSignal
}

/** `transient`: may be retried; `permanent`: the receiver rejected it. */
export interface AttemptResult {
  readonly kind: 'delivered' | 'transient' | 'permanent'
  readonly at: Millis
  readonly durationMs: number
  /** Null: there was no response. */
  readonly statusCode: number | null
  readonly response: string | null
  /** Why it failed, in words; null when it succeeded. */
  readonly error: string | null
  /** Why there was no response; null when there was one. */
  readonly cause: FetchFailureCause | null
  /**
   * Whether the endpoint may recover soon, so that we back off: no response, a 5xx, or a status that means too busy or
   * too early.
   */
  readonly isTemporary: boolean
}

/**
 * Makes an attempt. The time in the signatures is that of the attempt, so each retry has new ones. Never throws for
 * network failures.
 */
export async function makeAttempt(
  app: Pick<App, 'clock' | 'config' | 'fetch'>,
  request: AttemptRequest,
): Promise<AttemptResult> {
  const at = app.clock.now()
  const outcome = await app.fetch.post(request.url, {
    headers: createRequestHeaders({ ...request, at }, request.secrets, app.config.compatHeaderPrefixes),
    body: request.body,
    timeoutMs: ATTEMPT_TIMEOUT_MS,
    maxResponseBytes: MAX_STORED_RESPONSE_BYTES,
    signal: request.signal,
  })
  return { at, durationMs: Math.round(outcome.durationMs), ...classifyResponse(outcome) }
}

/**
 * Request Timeout, Too Early and Too Many Requests. The event is not retried, as after any 4xx, but the endpoint may
 * recover soon, so we back off.
 */
const TEMPORARY_STATUSES: readonly number[] = [408, 425, 429]

/** A 2xx is delivered; a 5xx or no response is transient; everything else, including redirects, is permanent. */
export function classifyResponse(outcome: FetchOutcome): Omit<AttemptResult, 'at' | 'durationMs'> {
  if (outcome.kind === 'failed') {
    const { reason: error, cause } = outcome
    return { kind: 'transient', statusCode: null, response: null, error, cause, isTemporary: true }
  }
  const { status, body } = outcome
  const response = { statusCode: status, response: body, cause: null }
  if (status >= 200 && status < 300) return { kind: 'delivered', ...response, error: null, isTemporary: false }
  const isTransient = status >= 500 && status < 600
  const isRedirect = status >= 300 && status < 400
  return {
    kind: isTransient ? 'transient' : 'permanent',
    ...response,
    error: `The response status was ${status}${isRedirect ? '; redirects are not followed' : ''}.`,
    isTemporary: isTransient || TEMPORARY_STATUSES.includes(status),
  }
}
