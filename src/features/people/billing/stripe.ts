/**
 * @module Calls Stripe with its own library, with a limit on time. Every failure becomes one of two
 * errors without secrets; the log has its kind and code, never a text from Stripe. Never follows a redirect, which would
 * carry the key elsewhere. Uses `fetch`, since the operator configured the URL.
 */
import type { Stripe } from 'stripe'
import type { App } from '#features/core/app/app.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { type Config, ConfigError } from '#platform/settings/config.ts'
import { minutes, seconds } from '#platform/units.ts'

/** For all requests of one call together. */
const TIMEOUT_MS = seconds(20)
const NOT_CONFIGURED_RETRY_SECONDS = 3600
const RETRY_SECONDS = 30
const MAX_LOGGED_LENGTH = 100

type StripeConfig = Pick<Config, 'stripeKey' | 'stripeWebhookSecret' | 'stripeUrl'>

export const isBillingConfigured = ({ stripeKey }: Pick<Config, 'stripeKey'>): boolean => stripeKey !== ''

/** Throws ConfigError for settings that would take money without granting the plan. */
export function requireBillingConfig({ stripeKey, stripeWebhookSecret, stripeUrl }: StripeConfig): void {
  if (stripeKey !== '' && stripeWebhookSecret === '')
    throw new ConfigError(
      'TASSIS_STRIPE_KEY is set but TASSIS_STRIPE_WEBHOOK_SECRET is not; set it to the signing secret of the endpoint {public_url}/billing/stripe, which reports payments.',
    )
  if (new URL(stripeUrl).pathname !== '/')
    throw new ConfigError(
      `TASSIS_STRIPE_URL is "${stripeUrl}"; it must be a URL of host and port only, such as https://api.stripe.com.`,
    )
}

/** Throws 503 `billing_not_configured` while there is no key. */
export function requireBilling({ config }: Pick<App, 'config'>): void {
  if (isBillingConfigured(config)) return
  throw new AppError(503, 'billing_not_configured', 'No plans are for sale here: no payment provider is configured.', {
    retryAfterSeconds: NOT_CONFIGURED_RETRY_SECONDS,
  })
}

type Library = typeof Stripe
type StripeError = InstanceType<Library['errors']['StripeError']>

/** Loaded when first needed: most installations sell nothing, and the command line never calls Stripe. */
export const loadStripe = async (): Promise<Library> => (await import('stripe')).default

/**
 * Runs `call` with a Stripe client, within 20 seconds. Throws 503 `billing_unavailable` when Stripe cannot be reached,
 * 502 `billing_failed` when it rejects the call or its response lacks what `call` reads, 422 when it rejects a URL that
 * the client provided, and every other error of `call` unchanged.
 */
export async function withStripe<T>(app: App, call: (stripe: Stripe) => Promise<T>): Promise<T> {
  requireBilling(app)
  const library = await loadStripe()
  const ending = new AbortController()
  const timer = app.clock.after(TIMEOUT_MS, () => ending.abort())
  try {
    return await call(createClient(library, app.config, ending.signal))
  } catch (error) {
    if (error instanceof TypeError) {
      app.log.error({ err: error }, 'reading a response of the payment provider failed')
      throw billingFailed()
    }
    throw error instanceof library.errors.StripeError ? toAppError(app, library, error) : error
  } finally {
    timer.cancel()
    // Ends the requests that run in parallel with a failed one.
    ending.abort()
  }
}

function createClient(library: Library, { stripeKey, stripeUrl }: StripeConfig, signal: AbortSignal): Stripe {
  const { protocol, hostname, port } = new URL(stripeUrl)
  return new library(stripeKey, {
    host: hostname,
    port: port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port),
    protocol: protocol === 'http:' ? 'http' : 'https',
    // The library does not retry. The user does, or Stripe, which repeats its event.
    maxNetworkRetries: 0,
    // Longer than our own timeout, which therefore ends the call first.
    timeout: minutes(1),
    telemetry: false,
    httpClient: library.createFetchHttpClient(
      Object.assign(
        (url: string | URL | Request, init: RequestInit = {}) => fetch(url, { ...init, redirect: 'error', signal }),
        { preconnect: () => undefined },
      ),
    ),
  })
}

/** Whether Stripe reported that the named resource does not exist (any more). */
export function isResourceMissing(error: unknown, param?: string): boolean {
  if (!(error instanceof Error)) return false
  // Compares the name of the class: the library is loaded only where calls are made.
  const refusal: Partial<StripeError> = error
  return (
    refusal.type === 'StripeInvalidRequestError' &&
    refusal.code === 'resource_missing' &&
    (param === undefined || refusal.param === param)
  )
}

/** Our fields that Stripe may reject although they are URLs. */
const URL_FIELDS = ['success_url', 'cancel_url', 'return_url']

function toAppError({ log }: App, { errors }: Library, error: StripeError): AppError {
  if (error instanceof errors.StripeInvalidRequestError && URL_FIELDS.includes(error.param ?? ''))
    return invalid(error.param ?? '', 'The payment provider does not accept this URL; use a public one.', 'invalid_url')
  log.error(toLogFields(error), 'payment provider rejected a call')
  if (error instanceof errors.StripeInvalidRequestError || error instanceof errors.StripeIdempotencyError)
    return billingFailed()
  return billingUnavailable()
}

/** Without the message, in which Stripe repeats parts of the key and of the request. */
function toLogFields(error: StripeError): Record<string, string | number> {
  const short = (value: unknown): string => String(value ?? '').slice(0, MAX_LOGGED_LENGTH)
  return {
    kind: error.type,
    code: short(error.code),
    status: error.statusCode ?? 0,
    stripeRequest: short(error.requestId),
  }
}

/** The 502 `billing_failed` for an invalid response; logs what was invalid. */
export function invalidResponse({ log }: Pick<App, 'log'>, what: string): AppError {
  log.error({ what }, 'payment provider sent an invalid response')
  return billingFailed()
}

const billingFailed = (): AppError =>
  new AppError(
    502,
    'billing_failed',
    "The payment provider did not accept the request; the service's log shows its operator the reason.",
  )

const billingUnavailable = (): AppError =>
  new AppError(503, 'billing_unavailable', 'The payment provider cannot be reached at the moment; try again shortly.', {
    retryAfterSeconds: RETRY_SECONDS,
  })
