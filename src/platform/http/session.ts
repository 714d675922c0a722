/**
 * @module The HTTP part of browser sessions: the cookie, and the check that a request with this cookie comes from our
 * own page (OWASP: synchroniser token and origin check). Knows no users; `app` passes in the code that maps sessions
 * to users.
 */
import { AppError } from '../errors.ts'

export const SESSION_COOKIE = 'tassis_session'
export const CSRF_HEADER = 'x-csrf-token'
const MAX_TOKEN_LENGTH = 200
/** Limit for the whole header: most proxies reject longer headers. */
const MAX_COOKIE_HEADER_LENGTH = 8192

/** Lets the server accept a cookie for a user. */
export interface SessionGate<Actor> {
  /** The user whom the request's cookie signs in; undefined when the cookie signs in nobody. */
  actorOf(request: Request, clientIp: () => string): Actor | undefined
  /** Throws 403 `csrf_failed` unless the request has the token of its session and comes from our own page. */
  requireOwnPage(request: Request, actor: Actor): void
  /** The error for a route that needs a signed-in user; undefined when the actor is a signed-in user. */
  sessionRefusal(actor: Actor): AppError | undefined
  /** The error for a user who is not an owner, on a route for owners; undefined for an owner and for a key. */
  ownerRefusal(actor: Actor): AppError | undefined
  /** The error for an actor that is not an operator of the service; undefined for an operator. */
  operatorRefusal(actor: Actor): AppError | undefined
  /** The error for an actor that lacks a scope of the route, if the actor is a user; undefined for a key. */
  roleRefusal(actor: Actor): AppError | undefined
}

export interface CookieOptions {
  /** Whether browsers use https. */
  readonly isSecure: boolean
  /** Default: that of sessions. */
  readonly name?: string
}

/** With https, the prefix keeps other hosts of the same domain from setting the cookie (RFC 6265bis §4.1.3.2). */
const cookieName = ({ isSecure, name = SESSION_COOKIE }: CookieOptions): string => (isSecure ? `__Host-${name}` : name)

/**
 * The value of the cookie, by default the token of a session. Undefined when there is no such cookie, or more than one, which means that another host has
 * set one of them. Throws 431 when the Cookie header is too long to parse.
 */
export function readCookie(headers: Headers, options: CookieOptions, maxLength = MAX_TOKEN_LENGTH): string | undefined {
  const header = headers.get('cookie') ?? ''
  if (header.length > MAX_COOKIE_HEADER_LENGTH) throw cookieTooLong()
  const name = `${cookieName(options)}=`
  const values = header
    .split(';')
    .map(trimBlanks)
    .filter((pair) => pair.startsWith(name))
    .map((pair) => pair.slice(name.length))
  const [value] = values
  return values.length === 1 && value !== undefined && value.length <= maxLength ? value : undefined
}

const cookieTooLong = (): AppError =>
  new AppError(
    431,
    'cookie_too_long',
    `The Cookie header must have at most ${MAX_COOKIE_HEADER_LENGTH} characters; delete the cookies of this host and its domain.`,
  )

/**
 * Trims blanks. RFC 6265 allows only space and tab. If other blanks were trimmed, a cookie whose name begins with such
 * a blank would be taken for ours, and browsers let any host set it: they protect our prefix only at the start of a
 * name.
 */
const trimBlanks = (pair: string): string => pair.replace(/^[ \t]+|(?<![ \t])[ \t]+$/g, '')

/**
 * The value of Set-Cookie.
 * @param maxAgeSeconds 0 deletes the cookie
 */
export const formatCookie = (value: string, maxAgeSeconds: number, options: CookieOptions): string =>
  `${cookieName(options)}=${value}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${options.isSecure ? '; Secure' : ''}`

const csrfFailed = (): AppError =>
  new AppError(
    403,
    'csrf_failed',
    'This request does not come from a page of this service; send X-CSRF-Token with the csrf_token of GET /v1/auth/session.',
  )

/**
 * Throws 403 when a browser reports that the request comes from another site's page. Programs other than browsers
 * report nothing, so their requests pass.
 * @param publicUrl URL under which browsers reach this service; the requested host name is accepted as well
 */
export function requireOwnOrigin(headers: Headers, publicUrl: string): void {
  const site = headers.get('sec-fetch-site')
  if (site !== null && site !== 'same-origin' && site !== 'none') throw csrfFailed()
  const origin = headers.get('origin')
  if (origin === null || origin === URL.parse(publicUrl)?.origin) return
  // A proxy in front may use another scheme, but passes the host name on.
  const host = URL.parse(origin)?.host
  if (host === undefined || host === '' || host !== headers.get('host')?.toLowerCase()) throw csrfFailed()
}

/**
 * Throws 403 unless the token is the session's.
 * @param isToken compares in constant time
 */
export function requireCsrfToken(headers: Headers, isToken: (token: string) => boolean): void {
  if (!isToken(headers.get(CSRF_HEADER) ?? '')) throw csrfFailed()
}
