/** @module Requests to the certificate authority, with limits for time and size. */
import type { App } from '#features/core/app/app.ts'
import { readBounded } from '#platform/net/read-bounded.ts'
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
  return async ({ url, method, headers, body }) => {
    const timeout = new AbortController()
    const timer = clock.after(REQUEST_TIMEOUT_MS, () => timeout.abort())
    try {
      const response = await fetch(url, {
        method,
        headers: { 'user-agent': 'Tassis', 'accept-encoding': 'identity', ...headers },
        ...(body !== undefined && { body }),
        redirect: 'manual',
        decompress: false,
        signal: AbortSignal.any([signal, timeout.signal]),
        ...(ca && { tls: { ca: [...ca] } }),
      })
      const text = await readBounded(response, MAX_RESPONSE_BYTES)
      if (text === undefined) throw new Error(`the response is larger than ${MAX_RESPONSE_BYTES} bytes`)
      return { status: response.status, header: (name) => response.headers.get(name), body: text }
    } catch (error) {
      throw new Error(timeout.signal.aborted ? `no response in ${REQUEST_TIMEOUT_MS / 1000} s` : describe(error))
    } finally {
      timer.cancel()
    }
  }
}

/** Bun's own messages address the author of a program; the code says what happened. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error ? String(error.code) : ''
  const known = CONNECTION_ERRORS[code]
  if (known !== undefined) return known
  return CERTIFICATE_ERROR.test(code)
    ? `its certificate is not trusted (${code}); name the root of your own certificate authority in TASSIS_EXTRA_CA_FILE`
    : code === ''
      ? error.message
      : code
}

const CONNECTION_ERRORS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was closed',
  ENOTFOUND: 'its name has no address in DNS',
  ETIMEDOUT: 'the connection timed out',
}
const CERTIFICATE_ERROR = /CERT|ISSUER|SIGNATURE/
