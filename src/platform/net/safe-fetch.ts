/**
 * @module The only way to call a URL that a tenant or a remote domain gave: to a checked address, limited in time and
 * size; a POST needs https. DNS and the rules about addresses are passed in.
 */
import { isIP } from 'node:net'
import { shuffle } from '#platform/ids.ts'
import type { Clock, Timer } from '#platform/time/clock.ts'
import { seconds } from '#platform/units.ts'
import {
  createHttpsPoster,
  type HttpsPosterOptions,
  type PostContent,
  type PostFailure,
  type PostResponse,
  type PostTarget,
} from './https-post.ts'

export interface PostRequest extends Pick<PostContent, 'headers' | 'body'> {
  /** Time limit for the whole call, from the first DNS query to the last byte of the body. */
  readonly timeoutMs: number
  /** Limit for the response body; the connection is closed when the body is longer. */
  readonly maxResponseBytes: number
  /** Aborting this signal ends the call, as the timeout does. */
  readonly signal?: AbortSignal
}

/** A request for a short text, or for the bytes of a file, which `takeChunk` of https-post.ts then takes. */
export type GetRequest = Omit<PostRequest, 'body'> & Pick<PostContent, 'takeChunk'>

export type FetchOutcome =
  | (PostResponse & { readonly address: string; readonly durationMs: number })
  /** No response. `reason` is one short sentence for the owner of the URL. */
  | {
      readonly kind: 'failed'
      readonly cause: FetchFailureCause
      readonly reason: string
      readonly durationMs: number
    }

/** `own`: this service could not call anyone, because its DNS servers do not answer or it has too many open files. */
export type FetchFailureCause = 'refused' | 'own' | 'dns' | 'connection' | 'tls' | 'timeout' | 'protocol'

/** A request for the head of a response, as for the check of a link. */
export type HeadRequest = Pick<PostRequest, 'headers' | 'timeoutMs' | 'signal'> & { readonly method: 'HEAD' | 'GET' }

export type HeadOutcome =
  | { readonly kind: 'response'; readonly status: number; readonly location: string | undefined }
  | { readonly kind: 'failed'; readonly reason: string }
  /** The URL may not be called. */
  | { readonly kind: 'refused'; readonly reason: string }

export type UrlCheck =
  | { readonly kind: 'ok' }
  | { readonly kind: 'invalid' | 'refused' | 'unresolvable'; readonly reason: string }

export type HostLookup =
  | { readonly kind: 'ok'; readonly addresses: readonly string[] }
  /** `reason` is one sentence; `isTemporary` means that DNS gave no definite answer. */
  | { readonly kind: 'failed'; readonly reason: string; readonly isTemporary: boolean }

export interface SafeFetchOptions extends HttpsPosterOptions {
  /** Resolves a host name to all its IPv4 and IPv6 addresses. */
  readonly lookUp: (host: string) => Promise<HostLookup>
  /**
   * Returns whether DNS answers any query now; called when a look-up got no answer. Default: DNS is assumed to work.
   */
  readonly isDnsWorking?: () => Promise<boolean>
  /**
   * Returns why an address (IPv4, or IPv6 without brackets) may not be called at a port; undefined when it may. The
   * reason is the rest of a sentence that begins with the address: `is …`. It must not contain the address, because the
   * author of the URL may not learn what the service's DNS servers answer. `allowsPrivate`: the operator named it.
   */
  readonly findRefusal: (address: string, port: number, allowsPrivate?: boolean) => string | undefined
}

const MAX_URL_LENGTH = 2048
/** Maximum number of addresses of one host to try when connections fail. */
const MAX_DIALLED_ADDRESSES = 3
/** This is short, because a client that saves a URL waits for the check. */
const CHECK_TIMEOUT_MS = seconds(5)
/** Ports from here on are free for any service. */
const MIN_FREE_PORT = 1024

export type Resolution =
  | { readonly kind: 'ok' /** In the order to try them. */; readonly addresses: readonly string[] }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unresolvable'; readonly reason: string; readonly isTemporary: boolean }

/** Calls URLs for tenants. Opens nothing before the first call; keeps connections until `close`. */
export class SafeFetch {
  readonly #options: SafeFetchOptions
  readonly #poster: ReturnType<typeof createHttpsPoster>
  readonly #activeCalls = new Set<CallAbort>()
  #isClosed = false

  constructor(options: SafeFetchOptions) {
    this.#options = options
    this.#poster = createHttpsPoster(options)
  }

  /**
   * Every address of a host must be allowed: a name that also resolves to a forbidden address is refused. IPv6 is used
   * only when there is no IPv4 address: calls from a machine without IPv6 would fail, and a host with both kinds is
   * reachable over IPv4. `localhost` is the exception, because many programs listen there on ::1 alone.
   * @param allowsPrivate whether the operator named the host, who may name one in his own network
   */
  async resolve({ host, port }: Pick<ParsedUrl, 'host' | 'port'>, allowsPrivate?: boolean): Promise<Resolution> {
    const found = await resolveHost(host, this.#options.lookUp)
    if (found.kind === 'failed') {
      // A name without a dot is resolved by the local machine, not by DNS.
      return host.includes('.') ? { ...found, kind: 'unresolvable' } : { kind: 'refused', reason: found.reason }
    }
    for (const address of found.addresses) {
      const refusal = this.#options.findRefusal(address, port, allowsPrivate)
      if (refusal !== undefined) {
        // The message does not contain the address: for a name that only the service's network resolves, the address
        // would reveal the layout of that network.
        const subject = address === host ? host : `${host} resolves to an address that`
        return { kind: 'refused', reason: `${subject} ${refusal}` }
      }
    }
    if (isThisMachine(host)) return { kind: 'ok', addresses: found.addresses }
    const ipv4 = found.addresses.filter((address) => isIP(address) === 4)
    return { kind: 'ok', addresses: shuffle(ipv4.length > 0 ? ipv4 : found.addresses).slice(0, MAX_DIALLED_ADDRESSES) }
  }

  /**
   * POSTs; never throws for network errors. Does not follow redirects: a 302 is a response. If an idle connection is
   * lost before any response, the request is sent again over a new connection, so the server may see the request twice.
   */
  post(url: string, request: PostRequest): Promise<FetchOutcome> {
    return this.#call(url, request)
  }

  /** Sends a request of any other method, under the same rules. */
  send(url: string, request: PostRequest & Pick<PostContent, 'method'>): Promise<FetchOutcome> {
    return this.#call(url, request)
  }

  /** GETs a short text, or a file piece by piece, over https, under the same rules as a POST. */
  get(url: string, request: GetRequest): Promise<FetchOutcome> {
    return this.#call(url, { ...request, method: 'GET', body: '' })
  }

  async #call(
    url: string,
    request: GetRequest & Pick<PostContent, 'method' | 'body' | 'isHeadOnly'>,
    schemes?: readonly Scheme[],
  ): Promise<FetchOutcome> {
    const startedMs = this.#options.clock.monotonicMs()
    const durationMs = () => Math.round(this.#options.clock.monotonicMs() - startedMs)
    const failed = (cause: FetchFailureCause, reason: string): FetchOutcome => ({
      kind: 'failed',
      cause,
      reason,
      durationMs: durationMs(),
    })
    const parsed = parseUrl(url, schemes)
    if (typeof parsed === 'string') return failed('refused', parsed)
    if (this.#isClosed) return failed('refused', 'The service is stopping.')

    const callAbort = createCallAbort(this.#options.clock, request)
    this.#activeCalls.add(callAbort)
    const ended = (): FetchOutcome =>
      callAbort.why === 'timeout'
        ? failed('timeout', `${parsed.host} did not answer within ${request.timeoutMs / 1000} seconds.`)
        : failed('connection', 'The service aborted the call before a response arrived.')
    try {
      const resolution = await Promise.race([this.resolve(parsed), callAbort.reached])
      if (resolution === undefined)
        return callAbort.why === 'timeout'
          ? failed(await this.#findDnsCause(request), describeLookupTimeout(parsed.host))
          : ended()
      if (resolution.kind === 'refused') return failed('refused', resolution.reason)
      if (resolution.kind === 'unresolvable')
        return failed(resolution.isTemporary ? await this.#findDnsCause(request) : 'dns', resolution.reason)

      let lastFailure: PostFailure | undefined
      for (const [i, address] of resolution.addresses.entries()) {
        // The remaining time is divided among this address and those that follow, so the last address gets all that is
        // left.
        const others = resolution.addresses.length - i
        const leftMs = request.timeoutMs - durationMs()
        const result = await this.#poster.post({ ...parsed, address }, request, {
          signal: callAbort.signal,
          connectTimeoutMs: others > 1 ? leftMs / others : undefined,
        })
        if (result.kind === 'response') return { ...result, address, durationMs: durationMs() }
        if (result.cause === 'ended') return ended()
        lastFailure = result
        if (result.cause !== 'unconnected') break
      }
      return failed(
        lastFailure === undefined || lastFailure.cause === 'unconnected' || lastFailure.cause === 'ended'
          ? 'connection'
          : lastFailure.cause,
        lastFailure?.reason ?? `${parsed.host} has no address.`,
      )
    } finally {
      this.#activeCalls.delete(callAbort)
      callAbort.release()
    }
  }

  /**
   * Sends a HEAD or GET, over http or https, and reads only the head of the response; never throws for network errors.
   * Does not follow redirects.
   */
  async readHead(url: string, request: HeadRequest): Promise<HeadOutcome> {
    const head = { ...request, body: '', maxResponseBytes: 0, isHeadOnly: true }
    const outcome = await this.#call(url, head, ['https', 'http'])
    return outcome.kind === 'response'
      ? { kind: 'response', status: outcome.status, location: outcome.bodyInfo?.location || undefined }
      : { kind: outcome.cause === 'refused' ? 'refused' : 'failed', reason: outcome.reason }
  }

  /** Whether our own DNS servers are at fault when a look-up got no answer. */
  async #findDnsCause({ signal }: PostRequest): Promise<'dns' | 'own'> {
    const { isDnsWorking } = this.#options
    if (!isDnsWorking) return 'dns'
    const ended = Promise.withResolvers<boolean>()
    const end = () => ended.resolve(true)
    if (signal?.aborted) end()
    signal?.addEventListener('abort', end)
    try {
      return (await Promise.race([isDnsWorking(), ended.promise])) ? 'dns' : 'own'
    } finally {
      signal?.removeEventListener('abort', end)
    }
  }

  /**
   * Checks whether a URL may be used: its syntax (https, no credentials), and the addresses to which its host name
   * resolves now.
   */
  async check(url: string): Promise<UrlCheck> {
    const parsed = parseUrl(url)
    if (typeof parsed === 'string') return { kind: 'invalid', reason: parsed }
    const callAbort = createCallAbort(this.#options.clock, { timeoutMs: CHECK_TIMEOUT_MS })
    try {
      const resolution = await Promise.race([this.resolve(parsed), callAbort.reached])
      if (resolution === undefined) return { kind: 'unresolvable', reason: describeLookupTimeout(parsed.host) }
      return resolution.kind === 'ok' ? { kind: 'ok' } : { kind: resolution.kind, reason: resolution.reason }
    } finally {
      callAbort.release()
    }
  }

  /** Closes idle connections and refuses further calls. */
  close(): void {
    this.#isClosed = true
    for (const callAbort of this.#activeCalls) callAbort.end('closed')
    this.#poster.close()
  }
}

const describeLookupTimeout = (host: string): string => `The address of ${host} could not be looked up in time.`

type ParsedUrl = Omit<PostTarget, 'address'>
type Scheme = 'https' | 'http'

/** RFC 1035 §2.3.4: lengths only; which characters are valid does not matter here. */
const DNS_NAME = /^(?=.{1,253}$)[^.]{1,63}(\.[^.]{1,63})*$/

/** The parts of a valid URL, or one sentence that says why it is invalid. */
function parseUrl(text: string, schemes: readonly Scheme[] = ['https']): ParsedUrl | string {
  if (text.length > MAX_URL_LENGTH) return `The URL must have at most ${MAX_URL_LENGTH} characters.`
  // The URL parser is lenient, but the URL that is called must be the one that a person reads.
  if (/[\s\\\p{Cc}\p{Cf}\p{Cs}]/u.test(text))
    return 'The URL must not contain spaces, backslashes, control characters or invisible ones.'
  const scheme = /^(https?):\/\/(?!\/)/i.exec(text)?.[1]?.toLowerCase()
  if (!schemes.some((known) => known === scheme))
    return `The URL must begin with ${schemes.map((known) => `${known}://`).join(' or ')} and a host name.`
  // Also rejects empty credentials, which the URL parser ignores.
  if (/^[^/]*\/\/[^/?#]*@/.test(text)) return 'The URL must not contain a user name or password.'
  const url = URL.parse(text)
  if (!url) return 'The URL is not valid; give one such as https://example.com/hooks.'
  if (url.port === '0') return 'The URL must not have port 0.'
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  if (isIP(host) === 0 && !DNS_NAME.test(host))
    return 'The host name in the URL is not valid: each part must have 1 to 63 characters, and the whole name at most 253.'
  const isHttps = url.protocol === 'https:'
  const defaultPort = isHttps ? 443 : 80
  const port = url.port === '' ? defaultPort : Number(url.port)
  // Requests in plain text to other services, such as mail servers, could be taken for their commands.
  if (schemes.includes('http') && port < MIN_FREE_PORT && port !== 80 && port !== 443)
    return `Port ${port} is not one of the web.`
  const inHeader = isIP(host) === 6 ? `[${host}]` : host
  return {
    host,
    isHttps,
    port,
    authority: port === defaultPort ? inHeader : `${inHeader}:${port}`,
    path: `${url.pathname}${url.search}`,
  }
}

/** RFC 6761 §6.3: such a name means this machine, whatever DNS answers. */
const isThisMachine = (host: string): boolean => host === 'localhost' || host.endsWith('.localhost')

async function resolveHost(host: string, lookUp: SafeFetchOptions['lookUp']): Promise<HostLookup> {
  if (isIP(host) !== 0) return { kind: 'ok', addresses: [host] }
  if (isThisMachine(host)) return { kind: 'ok', addresses: ['127.0.0.1', '::1'] }
  return lookUp(host)
}

type CallAbort = ReturnType<typeof createCallAbort>

function createCallAbort(clock: Clock, { timeoutMs, signal }: Pick<PostRequest, 'timeoutMs' | 'signal'>) {
  const controller = new AbortController()
  let why: 'timeout' | 'caller' | 'closed' | undefined
  const { promise: reached, resolve } = Promise.withResolvers<undefined>()
  const end = (cause: NonNullable<typeof why>): void => {
    why ??= cause
    resolve(undefined)
    controller.abort()
  }
  const endByCaller = () => end('caller')
  const timer: Timer = clock.after(timeoutMs, () => end('timeout'))
  if (signal?.aborted) end('caller')
  signal?.addEventListener('abort', endByCaller)
  return {
    signal: controller.signal,
    /** Resolves when `signal` is aborted. */
    reached,
    get why() {
      return why
    },
    end,
    release() {
      timer.cancel()
      signal?.removeEventListener('abort', endByCaller)
    },
  }
}
