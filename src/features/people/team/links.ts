/**
 * @module Links that admit anyone who has them: to a new password, or to a team. A link has 256 random bits, stored as
 * SHA-256. It leads to a page of `pages.ts`, where only a POST consumes it: mail scanners follow every link of a
 * message.
 */

import { sha256 } from '#platform/crypto/crypto.ts'
import { randomBytes } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'

export const LOGIN_PATH = '/login'
/** Where signing in by the identity provider begins. */
export const SIGN_ON_PATH = '/login/single-sign-on'
/** Where the provider sends people back to. */
export const CALLBACK_PATH = '/login/callback'
/** The page that uses a passkey. */
export const PASSKEY_PATH = '/login/passkey'
export const LOGOUT_PATH = '/logout'
/** The dashboard: app/dashboard. */
export const DASHBOARD_PATH = '/app'
export const RESET_PATH = '/reset-password'
export const JOIN_PATH = '/join'
/** Where the link of the first start leads. */
export const SETUP_PATH = '/setup'
/** Where a person lets a program in, or not. */
export const CONSENT_PATH = '/oauth/consent'

/** The sign-in page, or another way to sign in, that leads on to `path`. */
export const toLoginPath = (path: string, way = LOGIN_PATH): string =>
  path === LOGIN_PATH ? way : `${way}?next=${encodeURIComponent(path).replaceAll('%2F', '/')}`

/**
 * A screen of the dashboard, with its query. Its path has no dots: a browser would take `/app/../t/c/…`, a tracked link
 * to any host, for a path outside of the dashboard.
 */
const DASHBOARD_SCREEN = /^\/app(?:\/[\w-]+)*\/?(?:\?[\w\-./%=&+:@~!*]*)?$/

/** The page to show after signing in: `next` if it is a screen of the dashboard or CONSENT_PATH, else LOGIN_PATH. */
export const toPathAfterLogin = ({ dashboard }: Config, next: string): string =>
  next === CONSENT_PATH || (dashboard && DASHBOARD_SCREEN.test(next)) ? next : LOGIN_PATH

/** The page for a user who has just signed in. @param next as `toPathAfterLogin` returns it */
export const toStartPath = ({ dashboard }: Config, next: string): string =>
  next === LOGIN_PATH && dashboard ? DASHBOARD_PATH : next

const TOKEN_BYTES = 32
const TOKEN_PATTERN = /^[\w-]{43}$/

/** A token of a link or a cookie, and the hash to store. */
export function createLinkToken(): { readonly token: string; readonly hash: Uint8Array } {
  const token = Buffer.from(randomBytes(TOKEN_BYTES)).toString('base64url')
  return { token, hash: sha256(token) }
}

/** The hash of a token as provided; undefined when it cannot be a token. */
export const hashLinkToken = (token: string): Uint8Array | undefined =>
  TOKEN_PATTERN.test(token) ? sha256(token) : undefined

export const formatLink = ({ publicUrl }: Pick<Config, 'publicUrl'>, path: string, token?: string): string =>
  `${publicUrl.replace(/(?<!\/)\/+$/, '')}${path}${token === undefined ? '' : `?token=${token}`}`
