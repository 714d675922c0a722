/** @module One attempt at one webhook: signs and posts the body, and says what became of it. Stores nothing and decides nothing about retries. */
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/clock.ts'
import type { FetchFailureCause, FetchOutcome } from '#platform/safe-fetch.ts'
import { seconds } from '#platform/units.ts'
import { headersOf, signatureOf } from './signature.ts'

/** From the look-up of the host name to the end of the answer. */
const ATTEMPT_TIMEOUT_MS = seconds(10)
/** What the history keeps of an answer. */
const MAX_STORED_RESPONSE_BYTES = 1000

export interface AttemptRequest {
  readonly url: string
  readonly secret: string
  readonly event: string
  /** The JSON that is sent, and signed. */
  readonly body: string
  /** 1 is the first. */
  readonly attempt: number
  readonly signal: AbortSignal
}

/** `transient`: may be made again; `permanent`: the receiver said no. */
export interface AttemptResult {
  readonly kind: 'delivered' | 'transient' | 'permanent'
  readonly at: Millis
  readonly durationMs: number
  /** Null: there was no response. */
  readonly statusCode: number | null
  readonly response: string | null
  /** Why it did not succeed, in words; null when it did. */
  readonly error: string | null
  /** Why there was no response; null: there was one. */
  readonly cause: FetchFailureCause | null
  /** Whether the endpoint may answer otherwise soon, so that it is given a rest: no response, a 5xx, or that it is too busy or too early. */
  readonly isTemporary: boolean
}

/** Makes an attempt; its `t` is the time of the attempt, so a retry is signed anew. Never throws for what the network does. */
export async function makeAttempt(
  app: Pick<App, 'clock' | 'config' | 'fetch'>,
  request: AttemptRequest,
): Promise<AttemptResult> {
  const at = app.clock.now()
  const { event, body } = request
  const signature = signatureOf(request.secret, Math.floor(at / 1000), body)
  const outcome = await app.fetch.post(request.url, {
    headers: headersOf({ event, attempt: request.attempt, signature }, app.config.compatHeaderPrefixes),
    body,
    timeoutMs: ATTEMPT_TIMEOUT_MS,
    maxResponseBytes: MAX_STORED_RESPONSE_BYTES,
    signal: request.signal,
  })
  return { at, durationMs: Math.round(outcome.durationMs), ...classifyResponse(outcome) }
}

/** Request Timeout, Too Early, Too Many Requests: final for the event, as any 4xx, but no word on the endpoint. */
const TEMPORARY_STATUSES: readonly number[] = [408, 425, 429]

/** Any 2xx is delivered; a 5xx and no response at all are transient; everything else, redirects too, is permanent. */
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
    error: `The answer was ${status}${isRedirect ? '; redirects are not followed' : ''}.`,
    isTemporary: isTransient || TEMPORARY_STATUSES.includes(status),
  }
}
