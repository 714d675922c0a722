/**
 * @module Postmark's interface as a dialect of the HTTP server: its paths below `/postmark`, and its sends at the root,
 * because some of its clients can set only a host. The key is in `X-Postmark-Server-Token`.
 */
import type { Actor } from '#features/core/app/app.ts'
import { readApiKeyText } from '#platform/http/authenticate.ts'
import type { Dialect } from '#platform/http/dialect.ts'
import { toPostmarkError } from './errors.ts'

export const POSTMARK_PREFIX = '/postmark'

const TOKEN_HEADER = 'x-postmark-server-token'
/** Postmark's public test token: requests with it are checked, and nothing is sent. Its case does not matter. */
const TEST_TOKEN = 'postmark_api_test'

/** The actor of the test token. It belongs to no account, so all users of the token share the work of one account. */
const TEST_ACTOR: Actor = {
  accountId: 0,
  accountUuid: '',
  type: 'api_key',
  id: TEST_TOKEN,
  scopes: new Set(['emails:send']),
}

export const isTestActor = (actor: Actor): boolean => actor === TEST_ACTOR

const isSendPath = (path: string): boolean => path === '/email' || path.startsWith('/email/')

export const postmarkDialect: Dialect<Actor> = {
  name: 'postmark',
  speaks: (path) => path === POSTMARK_PREFIX || path.startsWith(`${POSTMARK_PREFIX}/`) || isSendPath(path),
  readApiKey: (headers) => readApiKeyText(headers.get(TOKEN_HEADER)?.trim()),
  guestOf: (headers) => (headers.get(TOKEN_HEADER)?.trim().toLowerCase() === TEST_TOKEN ? TEST_ACTOR : undefined),
  toErrorResponse: toPostmarkError,
}
