/**
 * @module Makes one attempt at one webhook: signs and posts the body, and classifies the response. Stores nothing and
 * decides nothing about retries.
 */
import type { App } from '#features/core/app/app.ts'
import type { FetchFailureCause, FetchOutcome } from '#platform/net/safe-fetch.ts'
import { type Millis, seconds } from '#platform/units.ts'
import { parseRetryAfter } from '#protocols/http/retry-after.ts'
import type { PayloadFormat } from '../event-names.ts'
import { createRequestHeaders, type SignedRequest, type SigningSecrets } from '../manage/signature.ts'
import { MAX_RETRY_AFTER_MS } from './failures.ts'

/** Time limit from the lookup of the host name to the end of the response. */
const ATTEMPT_TIMEOUT_MS = seconds(10)
/** How much of a response body the history stores. */
const MAX_STORED_RESPONSE_BYTES = 1000

export interface AttemptRequest extends Omit<SignedRequest, 'at'> {
  readonly url: string
  readonly format: PayloadFormat
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
   * Whether the endpoint may recover soon, so that we back off even after one failure: no response, a status after which
   * the event is repeated, or one that means too busy or too early.
   */
  readonly isTemporary: boolean
  /** How long the endpoint asks us to wait; 0: it does not, or its format has no such rule. */
  readonly retryAfterMs: number
}

/** Makes an attempt, signed with its own time. Never throws for network failures. */
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
  return {
    at,
    durationMs: Math.round(outcome.durationMs),
    ...classifyResponse(outcome, request.format, app.clock.now()),
  }
}

/**
 * Request Timeout, Too Early and Too Many Requests. In our format the event is not retried, as after any 4xx, but the
 * endpoint may recover soon, so we back off.
 */
const TEMPORARY_STATUSES: readonly number[] = [408, 425, 429]

/** With this response an endpoint stops the retries of Postmark. */
const POSTMARK_FINAL_STATUS = 403

/**
 * Whether an event is repeated after a response other than a 2xx. In our format: after a 5xx. Resend repeats it after
 * any, redirects included; Postmark too, but for one.
 */
const isRepeatedAfter = (status: number, format: PayloadFormat): boolean =>
  format === 'tassis' ? status >= 500 && status < 600 : format !== 'postmark' || status !== POSTMARK_FINAL_STATUS

/**
 * A 2xx is delivered; no response is transient, as are the statuses after which the format repeats an event; everything
 * else is permanent.
 * @param now of the response, for a Retry-After that is a date
 */
export function classifyResponse(
  outcome: FetchOutcome,
  format: PayloadFormat,
  now: Millis,
): Omit<AttemptResult, 'at' | 'durationMs'> {
  if (outcome.kind === 'failed') {
    const { reason: error, cause } = outcome
    return { kind: 'transient', statusCode: null, response: null, error, cause, isTemporary: true, retryAfterMs: 0 }
  }
  const { status, body, retryAfter } = outcome
  const response = { statusCode: status, response: body, cause: null }
  if (status >= 200 && status < 300)
    return { kind: 'delivered', ...response, error: null, isTemporary: false, retryAfterMs: 0 }
  const isTransient = isRepeatedAfter(status, format)
  const isRedirect = status >= 300 && status < 400
  return {
    kind: isTransient ? 'transient' : 'permanent',
    ...response,
    error: `The response status was ${status}${isRedirect ? '; redirects are not followed' : ''}.`,
    isTemporary: isTransient || TEMPORARY_STATUSES.includes(status),
    retryAfterMs: format === 'tassis' ? 0 : Math.min(parseRetryAfter(retryAfter, now) ?? 0, MAX_RETRY_AFTER_MS),
  }
}
