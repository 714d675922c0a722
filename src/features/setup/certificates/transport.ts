/** @module Requests to the certificate authority, with limits for time and size. */
import type { App } from '#features/core/app/app.ts'
import { createBoundedFetch } from '#platform/net/bounded-fetch.ts'
import { KiB, seconds } from '#platform/units.ts'
import type { AcmeTransport } from '#protocols/acme/session.ts'

const REQUEST_TIMEOUT_MS = seconds(30)
const MAX_RESPONSE_BYTES = 256 * KiB

/** Creates the transport for one order. Obeys HTTPS_PROXY, as the operator's own network may need. */
export function createAcmeTransport({
  clock,
  ca,
  signal,
}: {
  readonly clock: App['clock']
  readonly ca: readonly string[] | undefined
  /** Aborted when the order has to end. */
  readonly signal: AbortSignal
}): AcmeTransport {
  const request = createBoundedFetch({ clock, ca, timeoutMs: REQUEST_TIMEOUT_MS, maxBytes: MAX_RESPONSE_BYTES })
  return async ({ url, method, headers, body }) => {
    const init = {
      method,
      headers: { 'user-agent': 'Tassis', ...headers },
      ...(body !== undefined && { body }),
      signal,
    }
    const response = await request(url, init).catch((error: unknown) => {
      throw new Error(describe(error))
    })
    return { status: response.status, header: (name) => response.headers.get(name), body: response.text }
  }
}

/** Bun's own messages address the author of a program; the code of the system says what happened. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error ? String(error.code) : ''
  return CERTIFICATE_ERROR.test(code)
    ? `its certificate is not trusted (${code}); name the root of your own certificate authority in TASSIS_EXTRA_CA_FILE`
    : code === ''
      ? error.message
      : code
}

const CERTIFICATE_ERROR = /CERT|ISSUER|SIGNATURE/
