/**
 * @module Calls Stripe by its own library: bounded in time, in the size of answers and in how many calls are under way. Whatever goes wrong there
 * becomes one of two errors that name no secret; the log has kind and code of it, never a text from there. Never follows a redirect, which would
 * carry the key elsewhere.
 *
 * By `fetch`: the operator gave the URL. Callers judge what the answers hold.
 */
import type { Stripe } from 'stripe'
import type { App } from '#features/core/app/app.ts'
import { type Config, ConfigError } from '#platform/config.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { perOwner } from '#platform/per-owner.ts'
import { MiB, minutes, seconds } from '#platform/units.ts'

/** Of all requests of one call together. */
const TIMEOUT_MS = seconds(20)
const MAX_RESPONSE_BYTES = 4 * MiB
const MAX_CONCURRENT_CALLS = 32
const NOT_CONFIGURED_RETRY_SECONDS = 3600
const RETRY_SECONDS = 30
const MAX_LOGGED_LENGTH = 100

type StripeConfig = Pick<Config, 'stripeKey' | 'stripeWebhookSecret' | 'stripeUrl'>

export const isBillingConfigured = ({ stripeKey }: Pick<Config, 'stripeKey'>): boolean => stripeKey !== ''

/** Throws ConfigError for settings that would take money without giving the plan. */
export function requireBillingConfig({ stripeKey, stripeWebhookSecret, stripeUrl }: StripeConfig): void {
  if (stripeKey !== '' && stripeWebhookSecret === '')
    throw new ConfigError(
      'TASSIS_STRIPE_KEY is set but TASSIS_STRIPE_WEBHOOK_SECRET is not; set it to the signing secret of the endpoint {public_url}/billing/stripe, which tells of payments.',
    )
  if (new URL(stripeUrl).pathname !== '/')
    throw new ConfigError(
      `TASSIS_STRIPE_URL is "${stripeUrl}"; allowed is a URL of host and port only, such as https://api.stripe.com.`,
    )
}

/** Throws 503 `billing_not_configured` while there is no key. */
export function requireBilling({ config }: Pick<App, 'config'>): void {
  if (isBillingConfigured(config)) return
  throw new AppError(503, 'billing_not_configured', 'Plans cannot be bought here: no payment provider is configured.', {
    retryAfterSeconds: NOT_CONFIGURED_RETRY_SECONDS,
  })
}

type Library = typeof Stripe
type StripeError = InstanceType<Library['errors']['StripeError']>

/** Loaded when it is first needed: most services sell nothing, and no command line does. */
export const loadStripe = async (): Promise<Library> => (await import('stripe')).default

const getCalls = perOwner((_: App) => ({ running: 0 }))

/**
 * Does `call` with a client of Stripe, within 20 seconds. Throws 503 `billing_unavailable` when Stripe cannot be asked now, 502 `billing_failed` when
 * it refuses, 422 for a URL of the client's that it refuses, and whatever else `call` throws.
 */
export async function withStripe<T>(app: App, call: (stripe: Stripe) => Promise<T>): Promise<T> {
  requireBilling(app)
  const calls = getCalls(app)
  if (calls.running >= MAX_CONCURRENT_CALLS) throw billingUnavailable()
  calls.running++
  try {
    return await callWithTimeout(app, await loadStripe(), call)
  } finally {
    calls.running--
  }
}

async function callWithTimeout<T>(app: App, library: Library, call: (stripe: Stripe) => Promise<T>): Promise<T> {
  const ending = new AbortController()
  const timer = app.clock.after(TIMEOUT_MS, () => ending.abort())
  try {
    return await call(createClient(library, app.config, ending.signal))
  } catch (error) {
    throw error instanceof library.errors.StripeError ? toAppError(app, library, error) : error
  } finally {
    timer.cancel()
    // What runs on beside a part that failed ends with it.
    ending.abort()
  }
}

function createClient(library: Library, { stripeKey, stripeUrl }: StripeConfig, signal: AbortSignal): Stripe {
  const { protocol, hostname, port } = new URL(stripeUrl)
  return new library(stripeKey, {
    host: hostname,
    port: port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port),
    protocol: protocol === 'http:' ? 'http' : 'https',
    // Whoever asked tries again: a person, or Stripe with its event.
    maxNetworkRetries: 0,
    // Ours comes first.
    timeout: minutes(1),
    telemetry: false,
    httpClient: library.createFetchHttpClient(createBoundedFetch(signal)),
  })
}

/** A fetch that reads the whole body, an object in JSON: no more of it than is allowed, and until the signal. What it throws becomes an error of the library. */
const createBoundedFetch = (signal: AbortSignal): typeof fetch =>
  Object.assign((url: string | URL | Request, init: RequestInit = {}) => fetchBounded(url, init, signal), {
    preconnect: () => undefined,
  })

async function fetchBounded(url: string | URL | Request, init: RequestInit, signal: AbortSignal): Promise<Response> {
  const headers = new Headers(init.headers)
  // What is small when compressed may be large.
  headers.set('accept-encoding', 'identity')
  const response = await fetch(url, { ...init, headers, redirect: 'error', decompress: false, signal })
  const reader = response.body?.getReader()
  const chunks: Uint8Array[] = []
  for (let sizeBytes = 0; reader; ) {
    const { done, value } = await reader.read()
    if (done) break
    sizeBytes += value.length
    if (sizeBytes > MAX_RESPONSE_BYTES) {
      await reader.cancel()
      throw new Error(`the answer is larger than ${MAX_RESPONSE_BYTES} bytes`)
    }
    chunks.push(value)
  }
  const text = Buffer.concat(chunks).toString()
  // The library takes for granted that it is an object.
  const body: unknown = JSON.parse(text)
  if (typeof body !== 'object' || body === null) throw new Error('the answer is no object')
  return new Response(text, { status: response.status, headers: response.headers })
}

/** Whether Stripe said that what was named is not there (any more). */
export function isResourceMissing(error: unknown, param?: string): boolean {
  if (!(error instanceof Error)) return false
  // By the name of its class: the library is loaded only where calls are made.
  const refusal: Partial<StripeError> = error
  return (
    refusal.type === 'StripeInvalidRequestError' &&
    refusal.code === 'resource_missing' &&
    (param === undefined || refusal.param === param)
  )
}

/** Fields of ours that Stripe may find wrong, though they are URLs. */
const URL_FIELDS = ['success_url', 'cancel_url', 'return_url']

function toAppError({ log }: App, { errors }: Library, error: StripeError): AppError {
  if (error instanceof errors.StripeInvalidRequestError && URL_FIELDS.includes(error.param ?? ''))
    return invalid(error.param ?? '', 'The payment provider does not take this URL; give a public one.', 'invalid_url')
  log.error(toLogFields(error), 'the payment provider did not do what was asked')
  if (error instanceof errors.StripeInvalidRequestError || error instanceof errors.StripeIdempotencyError)
    return billingFailed()
  return billingUnavailable()
}

/** Not the message: Stripe repeats in it parts of the key, and of what was sent. */
function toLogFields(error: StripeError): Record<string, string | number> {
  const short = (value: unknown): string => String(value ?? '').slice(0, MAX_LOGGED_LENGTH)
  return {
    kind: error.type,
    code: short(error.code),
    status: error.statusCode ?? 0,
    stripeRequest: short(error.requestId),
  }
}

/** 502 `billing_failed` for an answer that cannot be; says in the log of what. */
export function invalidResponse({ log }: Pick<App, 'log'>, what: string): AppError {
  log.error({ what }, 'the payment provider answered what cannot be')
  return billingFailed()
}

const billingFailed = (): AppError =>
  new AppError(
    502,
    'billing_failed',
    'The payment provider did not accept the request; the operator of the service finds the reason in its log.',
  )

const billingUnavailable = (): AppError =>
  new AppError(503, 'billing_unavailable', 'The payment provider cannot be reached at the moment; try again shortly.', {
    retryAfterSeconds: RETRY_SECONDS,
  })
