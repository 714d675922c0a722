/**
 * @module Sessions of browsers, as far as HTTP goes: the cookie, and that a request which uses it comes from a page of ours (OWASP: synchroniser token
 * and check of the origin). Knows no users; whose a session is, is decided by the composition.
 */
import { AppError } from '../errors.ts'

export const SESSION_COOKIE = 'tassis_session'
export const CSRF_HEADER = 'x-csrf-token'
const MAX_TOKEN_LENGTH = 200
/** Of the whole header: longer ones hardly pass a proxy. */
const MAX_COOKIE_HEADER_LENGTH = 8192

/** What the server needs to let a cookie stand for a user. */
export interface SessionGate<Actor> {
  /** Who is signed in by the cookie of a request; undefined when nobody is. */
  actorOf(request: Request, clientIp: () => string): Actor | undefined
  /** Throws 403 `csrf_failed` unless the request has the token of its session and comes from a page of ours. */
  requireOwnPage(request: Request, actor: Actor): void
  /** The refusal of a route that is for users who are signed in; undefined for one. */
  sessionRefusal(actor: Actor): AppError | undefined
  /** The refusal of a route that is for owners alone; undefined for whoever may. */
  ownerRefusal(actor: Actor): AppError | undefined
  /** What a user is told whose role lacks a scope; undefined for a key. */
  roleRefusal(actor: Actor): AppError | undefined
}

export interface CookieOptions {
  /** Whether browsers come by https. */
  readonly isSecure: boolean
}

/** Where it can be, the prefix keeps other hosts of the same domain from setting the cookie (RFC 6265bis §4.1.3.2). */
const cookieName = ({ isSecure }: CookieOptions): string => (isSecure ? `__Host-${SESSION_COOKIE}` : SESSION_COOKIE)

/**
 * The token in the cookie; undefined when there is none, or more than one: then somebody else has set one.
 * Throws 431 when the Cookie header is too long to be looked at.
 */
export function readSessionToken(headers: Headers, options: CookieOptions): string | undefined {
  const header = headers.get('cookie') ?? ''
  if (header.length > MAX_COOKIE_HEADER_LENGTH) throw cookieTooLong()
  const name = `${cookieName(options)}=`
  const values = header
    .split(';')
    .map(trimBlanks)
    .filter((pair) => pair.startsWith(name))
    .map((pair) => pair.slice(name.length))
  const [value] = values
  return values.length === 1 && value !== undefined && value.length <= MAX_TOKEN_LENGTH ? value : undefined
}

const cookieTooLong = (): AppError =>
  new AppError(
    431,
    'cookie_too_long',
    `The Cookie header must have at most ${MAX_COOKIE_HEADER_LENGTH} characters; delete the cookies of this host and its domain.`,
  )

/**
 * Without the blanks around it. Of these RFC 6265 knows space and tab alone: were others removed, a name that begins with one would pass for ours, and no
 * browser guards its prefix.
 */
function trimBlanks(pair: string): string {
  let start = 0
  let end = pair.length
  while (start < end && isBlank(pair.charCodeAt(start))) start++
  while (end > start && isBlank(pair.charCodeAt(end - 1))) end--
  return pair.slice(start, end)
}

const isBlank = (code: number): boolean => code === 0x20 || code === 0x09

/** Value of Set-Cookie. @param maxAgeSeconds 0 takes the cookie away */
export const formatSessionCookie = (token: string, maxAgeSeconds: number, options: CookieOptions): string =>
  `${cookieName(options)}=${token}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${options.isSecure ? '; Secure' : ''}`

const csrfFailed = (): AppError =>
  new AppError(
    403,
    'csrf_failed',
    'This request does not come from a page of this service; send X-CSRF-Token with the csrf_token of GET /v1/auth/session.',
  )

/**
 * Throws 403 when a browser says that the request comes from a page elsewhere. Other programs say nothing of it, and are let through.
 * @param publicUrl under which browsers reach this service; the name that they asked for counts as well
 */
export function requireOwnOrigin(headers: Headers, publicUrl: string): void {
  const site = headers.get('sec-fetch-site')
  if (site !== null && site !== 'same-origin' && site !== 'none') throw csrfFailed()
  const origin = headers.get('origin')
  if (origin === null || origin === URL.parse(publicUrl)?.origin) return
  // A proxy in front may speak another scheme, but it passes the name on.
  const host = URL.parse(origin)?.host
  if (host === undefined || host === '' || host !== headers.get('host')?.toLowerCase()) throw csrfFailed()
}

/** Throws 403 unless the token is that of the session. @param isToken whether it is, in constant time */
export function requireCsrfToken(headers: Headers, isToken: (token: string) => boolean): void {
  if (!isToken(headers.get(CSRF_HEADER) ?? '')) throw csrfFailed()
}
