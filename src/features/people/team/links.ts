/**
 * @module Links that let whoever has them in: to a new password, or into a team. 256 random bits, of which the SHA-256 is stored. They lead to the pages of
 * `pages.ts`, where only a POST uses them up: mail scanners follow every link of a message.
 */
import type { Millis } from '#platform/clock.ts'
import type { Config } from '#platform/config.ts'
import { sha256 } from '#platform/crypto.ts'
import { randomBytes } from '#platform/ids.ts'
import { hours } from '#platform/units.ts'

export const LOGIN_PATH = '/login'
export const LOGOUT_PATH = '/logout'
export const RESET_PATH = '/reset-password'
export const JOIN_PATH = '/join'
/** Where people see and replace the signing secrets of webhooks: features/webhooks/pages.ts. */
export const WEBHOOKS_PATH = '/webhooks'

/** Where signing in may lead, apart from LOGIN_PATH itself. */
const PATHS_AFTER_LOGIN: readonly string[] = [WEBHOOKS_PATH]

/** The page on which to sign in, and from which one comes to `path`. */
export const toLoginPath = (path: string): string => `${LOGIN_PATH}?next=${path}`

/** The page that signing in leads to: one of ours that `next` names, never what else anybody writes into a link. */
export const toPathAfterLogin = (next: string): string => PATHS_AFTER_LOGIN.find((path) => path === next) ?? LOGIN_PATH

const TOKEN_BYTES = 32
const TOKEN_PATTERN = /^[\w-]{43}$/

/** By how much a clock may be set back without a new link being void. */
const MAX_CLOCK_STEP_MS = hours(1)

/**
 * Between which times a good link expires: not over, and no later than one that is made now. One that is was made by a clock that was ahead.
 * @param maxMs how long a link is good
 */
export const toExpiryRange = (now: Millis, maxMs: number): [after: Millis, latest: Millis] => [
  now,
  now + maxMs + MAX_CLOCK_STEP_MS,
]

export interface LinkToken {
  readonly token: string
  readonly hash: Uint8Array
}

export function createLinkToken(): LinkToken {
  const token = Buffer.from(randomBytes(TOKEN_BYTES)).toString('base64url')
  return { token, hash: sha256(token) }
}

/** The hash of a token that somebody gave; undefined when it cannot be one. */
export const hashLinkToken = (token: string): Uint8Array | undefined =>
  TOKEN_PATTERN.test(token) ? sha256(token) : undefined

export const formatLink = ({ publicUrl }: Config, path: string, token?: string): string =>
  `${publicUrl.replace(/(?<!\/)\/+$/, '')}${path}${token === undefined ? '' : `?token=${token}`}`
