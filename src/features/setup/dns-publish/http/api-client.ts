/**
 * @module Requests to the API of a DNS provider, limited in time and size. Every failure is a `DnsApiError` that says
 * what to do. Never retries, follows a redirect, or repeats a secret.
 */
import { attempt } from '#platform/errors.ts'
import { MiB, seconds } from '#platform/units.ts'
import { parseRetryAfter } from '#protocols/http/retry-after.ts'
import { type DnsApiDeps, DnsApiError, type DnsApiProblem } from '../dns-api.ts'

const LIMITS = { timeoutMs: seconds(20), maxResponseBytes: 2 * MiB }
const MAX_QUOTED_LENGTH = 200

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
export type ApiRequest = { readonly method: Method; readonly url: string; readonly body: string }
export type ApiReply = { readonly status: number; readonly data: unknown; readonly retryAfter?: string | undefined }

export interface ApiOptions {
  readonly title: string
  readonly rights: string
  readonly baseUrl: string
  readonly secrets: readonly string[]
  /** Between two requests, for providers that allow few a second. */
  readonly paceMs: number
  /** The header fields that authenticate a request. */
  authenticate(request: ApiRequest): Record<string, string> | Promise<Record<string, string>>
  /** Throws for anything else. */
  parse(text: string): unknown
}

/** Of Cloudflare (codes), Hetzner, OVHcloud and Route 53, where the status does not tell. */
const WORDED_PROBLEMS: readonly [RegExp, DnsApiProblem][] = [
  [/"code":"protected"/, 'rejected'],
  [/"code":(?:1000|6003|6111|9106|9109|10000)\b|INVALID_(?:KEY|SIGNATURE|CREDENTIAL)|QUERY_TIME_OUT/, 'unauthorised'],
  [/"code":810(?:44|57|58)\b|but it already exists|but it was not found|not match the current values/, 'changed'],
  [/"(?:Throttling|PriorRequestNotComplete)"/, 'rate_limited'],
]
/** 423 at Hetzner: the last change of the set is not complete. */
const STATUS_PROBLEMS: readonly [DnsApiProblem, readonly number[]][] = [
  ['unauthorised', [401, 403]],
  ['changed', [404, 409]],
  ['rate_limited', [423, 429]],
]

export class ApiClient {
  readonly #deps: DnsApiDeps
  readonly #options: ApiOptions
  #refusal: ApiReply | undefined

  constructor(deps: DnsApiDeps, options: ApiOptions) {
    this.#deps = deps
    this.#options = options
  }

  /** Any response with sense. An object is sent as JSON, a string as XML. */
  async send(method: Method, path: string, content: object | string = ''): Promise<ApiReply> {
    const { baseUrl, title, paceMs, authenticate, parse } = this.#options
    const { fetch, clock, signal } = this.#deps
    if (paceMs > 0) await clock.sleep(paceMs)
    const [type, body] = typeof content === 'string' ? ['xml', content] : ['json', JSON.stringify(content)]
    const request: ApiRequest = { method, url: `${baseUrl}${path}`, body }
    const headers = { ...(body !== '' && { 'content-type': `application/${type}` }), ...(await authenticate(request)) }
    const outcome = await fetch.send(request.url, { method, body, headers, signal, ...LIMITS })
    if (outcome.kind === 'failed') {
      const problem = outcome.cause === 'refused' ? 'rejected' : 'unavailable'
      throw new DnsApiError(problem, `${title} could not be reached: ${outcome.reason}`)
    }
    const { status, retryAfter } = outcome
    const data: unknown = outcome.body === '' ? null : attempt(() => parse(outcome.body))
    const hasSense = data !== undefined && ((status >= 200 && status < 300) || (status >= 400 && status < 500))
    // Proxies in front of an API limit rates with pages of HTML.
    if (hasSense || status === 429) return { status, data, retryAfter }
    throw new DnsApiError('unavailable', `${title} gave no usable response (status ${status}). Try again later.`)
  }

  /** The data of a success, unchecked: the `DnsApi` reports the TypeError of data that has another form. */
  async call<T>(method: Method, path: string, content?: object | string): Promise<T> {
    const reply = await this.send(method, path, content)
    if (reply.status >= 400) throw this.toError(reply)
    return reply.data as T
  }

  /** `result`, if there is such a zone. A 403 may be about this one only; `noZone` tells of it. */
  async ifExists(path: string, result: string): Promise<string | undefined> {
    const reply = await this.send('GET', path)
    if (reply.status === 403) this.#refusal ??= reply
    else if (reply.status >= 400 && reply.status !== 404) throw this.toError(reply)
    return reply.status < 400 ? result : undefined
  }

  noZone(domain: string): DnsApiError {
    const advice = 'Check that the zone is in this account, and that the credentials cover it.'
    const message = `${this.#options.title} has no zone of ${domain} for these credentials. ${advice}`
    return this.#refusal ? this.toError(this.#refusal) : new DnsApiError('no_zone', message)
  }

  toError({ status, data, retryAfter }: ApiReply): DnsApiError {
    const { title, rights, secrets } = this.#options
    const text = JSON.stringify(data) ?? ''
    const problem =
      WORDED_PROBLEMS.find(([words]) => words.test(text))?.[1] ??
      STATUS_PROBLEMS.find(([, statuses]) => statuses.includes(status))?.[0] ??
      'rejected'
    const words = /"(?:[mM]essage|detail|description)":"([^"]+)/.exec(text)?.[1] ?? text
    const safe = secrets.reduce((left, secret) => left.replaceAll(secret, '…'), words.replace(/[^\x20-\x7e]+/g, ' '))
    const said = safe.slice(0, MAX_QUOTED_LENGTH)
    if (problem === 'rate_limited') {
      const waitMs = parseRetryAfter(retryAfter, this.#deps.clock.now())
      const waitSeconds = waitMs === undefined ? undefined : Math.ceil(waitMs / 1000)
      const when = waitSeconds === undefined ? 'in some minutes' : `in ${waitSeconds} seconds`
      return new DnsApiError(problem, `${title} accepts no more requests now. Try again ${when}.`, waitSeconds)
    }
    if (problem === 'unauthorised')
      return new DnsApiError(problem, `${title} refuses these credentials: ${said}. They need ${rights}`)
    const changed = `The records changed at ${title} since they were read: ${said}. Try again.`
    return new DnsApiError(problem, problem === 'changed' ? changed : `${title} refuses this change: ${said}`)
  }
}
