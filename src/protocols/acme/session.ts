/**
 * @module Signed requests to an ACME server (RFC 8555 §6): directory, nonces, account and its key, errors. Believes nothing
 * that the server sends: every URL must be https, every field is checked. Opens no connection itself.
 */
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { parseRetryAfter } from '../http/retry-after.ts'

export interface AcmeRequest {
  readonly url: string
  readonly method: 'GET' | 'HEAD' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export interface AcmeResponse {
  readonly status: number
  header(name: string): string | null
  readonly body: string
}

/**
 * Makes one request, limits its time and the size of the response, and follows no redirect. Rejects when there is no
 * response.
 */
export type AcmeTransport = (request: AcmeRequest) => Promise<AcmeResponse>

export interface AcmeSessionOptions {
  readonly directoryUrl: string
  readonly key: AccountKey
  readonly transport: AcmeTransport
  /** Wall clock in ms since the epoch, for a Retry-After that is a date. */
  readonly now: () => number
}

/**
 * `server`: the server does not work, or answers nonsense, so no order would succeed now. `order`: it refused this
 * order, or the host could not be validated.
 */
export type AcmeErrorScope = 'server' | 'order'

export class AcmeError extends Error {
  readonly scope: AcmeErrorScope
  /** The problem type without its namespace, such as `rateLimited` (§6.7). */
  readonly type: string | undefined
  /** How long the server wants to be left alone. */
  readonly retryAfterMs: number | undefined

  constructor(scope: AcmeErrorScope, message: string, more: { type?: string; retryAfterMs?: number } = {}) {
    super(message)
    this.name = 'AcmeError'
    this.scope = scope
    this.type = more.type
    this.retryAfterMs = more.retryAfterMs
  }
}

const PROBLEM_NAMESPACE = 'urn:ietf:params:acme:error:'
/** The server may reject a nonce at any time, for example because it was restarted (§6.5). */
const MAX_NONCE_ATTEMPTS = 4
const MAX_PROBLEM_LENGTH = 300
/** Types that concern the account or the server, not one order. */
const SERVER_TYPES: ReadonlySet<string> = new Set(
  `accountDoesNotExist badNonce badPublicKey badSignatureAlgorithm externalAccountRequired invalidContact
  serverInternal unsupportedContact userActionRequired`.split(/\s+/),
)

/** A session with one server, as one account. */
export class AcmeSession {
  readonly #options: AcmeSessionOptions
  readonly #directory: Readonly<Record<string, unknown>>
  #nonce: string | undefined
  #accountUrl: string | undefined

  private constructor(options: AcmeSessionOptions, directory: Readonly<Record<string, unknown>>) {
    this.#options = options
    this.#directory = directory
  }

  /** Reads the directory (§7.1.1). Throws `AcmeError`. */
  static async open(options: AcmeSessionOptions): Promise<AcmeSession> {
    const response = await exchange(options, { url: requireHttps(options.directoryUrl), method: 'GET', headers: {} })
    if (response.status !== 200) throw toError(options, response, 'server')
    return new AcmeSession(options, parseObject(response.body, 'the directory'))
  }

  /** Finds or creates the account of the key, before anything else is signed (§7.3). Throws `AcmeError`. */
  async logIn(): Promise<void> {
    // Without an account nothing can be ordered.
    const account = await this.#send(this.endpoint('newAccount'), { termsOfServiceAgreed: true }, { scope: 'server' })
    this.#accountUrl = requireHttps(account.header('location'))
  }

  get key(): AccountKey {
    return this.#options.key
  }

  now(): number {
    return this.#options.now()
  }

  /** URL of an operation, from the directory. Throws when the server does not offer it. */
  endpoint(name: string): string {
    const url = this.#directory[name]
    if (url === undefined) throw new AcmeError('server', `The directory of the ACME server lacks ${name}.`)
    return requireHttps(url)
  }

  /**
   * Sends a payload, or reads a resource without one (POST-as-GET, §6.3). Returns the response with its body, an object.
   * Throws `AcmeError`.
   */
  async post(
    url: unknown,
    payload?: object,
  ): Promise<{ readonly response: AcmeResponse; readonly object: JsonObject }> {
    const response = await this.#send(requireHttps(url), payload)
    return { response, object: parseObject(response.body, `the response of ${hostOf(url)}`) }
  }

  /** Reads a certificate chain in PEM (§7.4.2). Throws `AcmeError`. */
  async readCertificate(url: unknown): Promise<string> {
    const response = await this.#send(requireHttps(url), undefined, { accept: 'application/pem-certificate-chain' })
    return response.body
  }

  async #send(
    url: string,
    payload: object | undefined,
    { accept, scope = 'order' }: { readonly accept?: string; readonly scope?: AcmeErrorScope } = {},
  ): Promise<AcmeResponse> {
    for (let attempt = 1; ; attempt++) {
      const nonce = this.#nonce ?? (await this.#fetchNonce())
      this.#nonce = undefined
      const { key } = this.#options
      const identity = this.#accountUrl === undefined ? { jwk: key.jwk } : { kid: this.#accountUrl }
      const response = await exchange(this.#options, {
        url,
        method: 'POST',
        headers: { 'content-type': 'application/jose+json', ...(accept !== undefined && { accept }) },
        body: key.sign({ ...identity, nonce, url }, payload === undefined ? '' : JSON.stringify(payload)),
      })
      this.#nonce = response.header('replay-nonce') ?? undefined
      if (response.status >= 200 && response.status < 300) return response
      const error = toError(this.#options, response, scope)
      if (error.type !== 'badNonce' || attempt >= MAX_NONCE_ATTEMPTS) throw error
    }
  }

  async #fetchNonce(): Promise<string> {
    const response = await exchange(this.#options, { url: this.endpoint('newNonce'), method: 'HEAD', headers: {} })
    const nonce = response.header('replay-nonce')
    if (nonce === null) throw toError(this.#options, response, 'server', 'The ACME server sent no nonce.')
    return nonce
  }
}

export type JsonObject = Readonly<Record<string, unknown>>

async function exchange({ transport }: AcmeSessionOptions, request: AcmeRequest): Promise<AcmeResponse> {
  try {
    return await transport(request)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new AcmeError('server', `${hostOf(request.url)} cannot be reached: ${reason}`)
  }
}

function toError(
  { now }: AcmeSessionOptions,
  response: AcmeResponse,
  scope: AcmeErrorScope,
  fallback = `The ACME server responded ${response.status}.`,
): AcmeError {
  let problem: JsonObject = {}
  try {
    problem = parseObject(response.body, 'the error')
  } catch {
    // Something between us and the server may have answered, in HTML.
  }
  const { type, message } = describeProblem(problem)
  const isServerError = response.status >= 500 || (type !== undefined && SERVER_TYPES.has(type))
  const retryAfterMs = parseRetryAfter(response.header('retry-after'), now())
  return new AcmeError(isServerError ? 'server' : scope, message ?? fallback, {
    ...(type !== undefined && { type }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })
}

/** The type and one bounded line of a problem document (RFC 7807); of its subproblems the first one counts. */
export function describeProblem(problem: unknown): { readonly type?: string; readonly message?: string } {
  if (typeof problem !== 'object' || problem === null) return {}
  const { type, detail, subproblems } = problem as JsonObject
  const [first] = Array.isArray(subproblems) ? (subproblems as unknown[]) : []
  const more = first === undefined ? undefined : describeProblem(first).message
  const shortType =
    typeof type === 'string' && type.startsWith(PROBLEM_NAMESPACE)
      ? toLine(type.slice(PROBLEM_NAMESPACE.length))
      : undefined
  const text = [shortType, typeof detail === 'string' ? toLine(detail) : undefined, more]
    .filter((part) => part !== undefined)
    .join(': ')
  return {
    ...(shortType !== undefined && { type: shortType }),
    ...(text !== '' && { message: text.slice(0, MAX_PROBLEM_LENGTH) }),
  }
}

const toLine = (text: string): string => text.slice(0, MAX_PROBLEM_LENGTH).replace(/[\p{C}\s]+/gu, ' ')

function parseObject(text: string, what: string): JsonObject {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // Handled below, as any other text.
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new AcmeError('server', `The ACME server sent no JSON object as ${what}.`)
  return value as JsonObject
}

function requireHttps(url: unknown): string {
  const parsed = typeof url === 'string' ? URL.parse(url) : null
  if (parsed?.protocol !== 'https:') throw new AcmeError('server', 'The ACME server sent a URL that is not https.')
  return parsed.href
}

const hostOf = (url: unknown): string => (typeof url === 'string' ? (URL.parse(url)?.host ?? '') : '')

/** The key of an account: signs requests (§6.2) and answers challenges (§8.1), with ES256. */
export type AccountKey = ReturnType<typeof toAccountKey>

/** Creates a key on P-256. */
export const generateAccountKey = (): AccountKey =>
  toAccountKey(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey)

/** Throws when `pem` is no private key on P-256. */
export const parseAccountKey = (pem: string): AccountKey => toAccountKey(createPrivateKey(pem))

function toAccountKey(key: KeyObject) {
  const { crv, kty, x, y } = createPublicKey(key).export({ format: 'jwk' })
  if (crv !== 'P-256' || kty !== 'EC' || x === undefined || y === undefined)
    throw new TypeError('the key of an ACME account must be on P-256')
  const jwk = { crv, kty, x, y }
  const thumbprint = createHash('sha256').update(JSON.stringify(jwk)).digest('base64url')
  return {
    /** PEM, PKCS #8. */
    pem: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    /** The public key as a JWK with its members in the order of RFC 7638 §3. */
    jwk,
    /** `token.thumbprint`, which proves that a challenge is answered by the owner of this key. */
    authorise: (token: string) => `${token}.${thumbprint}`,
    /** A request body: the flattened JWS JSON serialisation (RFC 7515 §7.2.2). @param payload '' for POST-as-GET */
    sign(header: Readonly<Record<string, unknown>>, payload: string): string {
      const protectedPart = encode(JSON.stringify({ alg: 'ES256', ...header }))
      const payloadPart = encode(payload)
      const signature = sign('sha256', Buffer.from(`${protectedPart}.${payloadPart}`), {
        key,
        dsaEncoding: 'ieee-p1363',
      }).toString('base64url')
      return JSON.stringify({ protected: protectedPart, payload: payloadPart, signature })
    },
  }
}

const encode = (text: string): string => Buffer.from(text).toString('base64url')
