/**
 * @module Requests to a server that the operator named, such as a certificate authority or an identity provider: limited
 * in time and size, without redirects. It may be on a private network, and HTTPS_PROXY is obeyed.
 * Also reads the body of any response within a limit.
 */
import type { Clock } from '#platform/time/clock.ts'

interface BoundedFetchOptions {
  readonly clock: Clock
  /** Trusted certificate authorities in PEM; undefined: those of the system. */
  readonly ca: readonly string[] | undefined
  readonly timeoutMs: number
  readonly maxBytes: number
}

/** Returns a function that makes one request; it throws without a response in time and for one that is too large. */
export const createBoundedFetch =
  ({ clock, ca, timeoutMs, maxBytes }: BoundedFetchOptions) =>
  async (url: string, { headers, signal, ...init }: RequestInit) => {
    const timeout = new AbortController()
    const timer = clock.after(timeoutMs, () => timeout.abort())
    try {
      const response = await fetch(url, {
        ...init,
        headers: { ...Object.fromEntries(new Headers(headers)), 'accept-encoding': 'identity' },
        redirect: 'manual',
        decompress: false,
        signal: AbortSignal.any([timeout.signal, ...(signal ? [signal] : [])]),
        ...(ca && { tls: { ca: [...ca] } }),
      })
      const text = await readBounded(response, maxBytes)
      if (text === undefined) throw new Error(`the response is larger than ${maxBytes} bytes`)
      return { status: response.status, headers: response.headers, text }
    } catch (error) {
      throw timeout.signal.aborted ? new Error(`no response in ${timeoutMs / 1000} s`) : error
    } finally {
      timer.cancel()
    }
  }

/** The body as text. Undefined when the body is too large; the rest is then not read. */
export async function readBounded(response: Response, maxBytes: number): Promise<string | undefined> {
  const reader = response.body?.getReader()
  if (!reader) return ''
  const decoder = new TextDecoder()
  let text = ''
  let sizeBytes = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    sizeBytes += value.length
    if (sizeBytes > maxBytes) {
      await reader.cancel()
      return undefined
    }
    text += decoder.decode(value, { stream: true })
  }
}
