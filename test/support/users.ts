/**
 * @module Users for tests: created without an invitation link, signed in over HTTP as a browser does, with cookie and
 * CSRF token.
 */
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { createUserWithPassword, type User } from '#features/people/team/users.ts'
import type { TestApi } from './api.ts'
import { eventually } from './app.ts'

export const PASSWORD = 'heron lamp orbit fudge'
/** The hash of PASSWORD, computed once and at the lowest cost, because checking it takes the same time. */
let hashed: Promise<string> | undefined

export interface TestUser {
  readonly user: User
  readonly email: string
}

/** Creates a user with PASSWORD in the team of the actor's account. */
export async function createTestUser(app: App, actor: Actor, email: string, role: TeamRole): Promise<TestUser> {
  hashed ??= Bun.password.hash(PASSWORD, { algorithm: 'argon2id', memoryCost: 8, timeCost: 1 })
  const passwordHash = await hashed
  const user = await app.commit.write((tx) => createUserWithPassword(app, tx, actor, { email, role, passwordHash }))
  return { user, email }
}

export interface HttpResponse {
  readonly status: number
  readonly headers: Headers
  readonly body: unknown
}

export interface BrowserSession {
  /** `name=value`. */
  readonly cookie: string
  readonly csrfToken: string
  /** The cookie and the CSRF token as request headers. */
  readonly headers: Readonly<Record<string, string>>
  /** The Set-Cookie header of the sign-in response. */
  readonly setCookie: string
  /** Sends a request with the cookie and, for a method that changes something, the CSRF token. */
  ask(method: string, path: string, body?: unknown): Promise<HttpResponse>
}

export async function post(
  url: string,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<HttpResponse> {
  return ask(url, 'POST', path, body, headers)
}

/** Posts a form as a browser on one of our pages does. */
export async function postForm(
  url: string,
  path: string,
  fields: Record<string, string>,
  headers: Readonly<Record<string, string>> = {},
): Promise<HttpResponse> {
  const body = new URLSearchParams(fields)
  const init = { method: 'POST', redirect: 'manual', headers: { origin: url, ...headers }, body } as const
  const response = await fetch(`${url}${path}`, init)
  return { status: response.status, headers: response.headers, body: await response.text() }
}

export async function ask(
  url: string,
  method: string,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<HttpResponse> {
  const response = await fetch(`${url}${path}`, {
    method,
    redirect: 'manual',
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text.startsWith('{') ? JSON.parse(text) : text }
}

/** Signs in; throws when the sign-in fails. */
export async function signIn(
  { url }: Pick<TestApi, 'url'>,
  email: string,
  given: { readonly password?: string; readonly code?: string } = {},
): Promise<BrowserSession> {
  const answer = await post(url, '/v1/auth/login', { email, password: PASSWORD, ...given })
  if (answer.status !== 200) throw new Error(`not signed in: ${JSON.stringify(answer.body)}`)
  const setCookie = answer.headers.get('set-cookie') ?? ''
  const cookie = setCookie.split(';')[0] ?? ''
  const { csrf_token: csrfToken } = (answer.body as { data: { csrf_token: string } }).data
  const headers = { cookie, 'x-csrf-token': csrfToken }
  return {
    cookie,
    csrfToken,
    headers,
    setCookie,
    ask: (method, path, body) => ask(url, method, path, body, method === 'GET' ? { cookie } : headers),
  }
}

/** Settings that send the service's own mail through the whole pipeline and capture it. */
export const CAPTURE_OPTIONS = { delivers: true, settings: { TASSIS_DELIVERY: 'capture' } } as const

/** Waits until the service's email with this row id is sent, and returns its text. */
export async function readMailText({ opened }: Pick<TestApi, 'opened'>, emailId: number): Promise<string> {
  const { raw } = await eventually(() => opened.captures.find(emailId))
  if (!/^Content-Transfer-Encoding: quoted-printable/im.test(raw)) return raw
  const bytes = raw
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}

/** The value after `token=` in a text. */
export function findToken(text: string): string {
  const [, token] = /[?]token=([\w-]{43})/.exec(text) ?? []
  if (token === undefined) throw new Error(`no link in ${text}`)
  return token
}
