/**
 * @module Declares in a route's `detail` who may call it, so that authentication and the API description cannot
 * disagree. Every route under /v1 must declare this, or `server.ts` refuses to start. Other routes (pages, health) are
 * public. Also the errors and headers that only this route returns; the API description lists them beside the common ones.
 */
/** The fields of `detail`; what they mean say the constants and functions below. */
export interface AccessDetail {
  readonly security?: readonly unknown[]
  /** Scopes that the caller needs, separated by spaces; empty: any key will do. */
  readonly 'x-required-scope'?: string
  readonly 'x-alternative-scope'?: string
  readonly 'x-session-only'?: boolean
  readonly 'x-owners-only'?: boolean
  readonly 'x-operators-only'?: boolean
  readonly 'x-commands-only'?: boolean
  readonly 'x-changes'?: boolean
}

const SESSION = { session: [] }
const ANY_CREDENTIAL = [{ bearer: [] }, { serviceApiKey: [] }, SESSION]

/**
 * `detail: { summary: '...', ...requires('domains:read') }`: needs a key or a signed-in user with this scope; with
 * several scopes, needs all of them.
 */
export const requires = <Scope extends string>(...scopes: readonly [Scope, ...Scope[]]) =>
  ({ security: ANY_CREDENTIAL, 'x-required-scope': scopes.join(' ') }) satisfies AccessDetail

/** Used after `requires`: this scope alone also opens the route. Its handler hides what only the others may read. */
export const orScope = (scope: string) => ({ 'x-alternative-scope': scope }) satisfies AccessDetail

/** Needs any key; what the key may do is up to the handler. */
export const anyKey = { security: ANY_CREDENTIAL, 'x-required-scope': '' } satisfies AccessDetail

/** Parses the value of `x-required-scope`; no scopes: any key will do. */
export const parseScopes = (required: string): readonly string[] => (required === '' ? [] : required.split(' '))

/** Needs a signed-in user of any role; a key is a 403. */
export const requiresSession = {
  security: [SESSION],
  'x-required-scope': '',
  'x-session-only': true,
} satisfies AccessDetail

/** Used after `requires`: needs a signed-in user whose role has the scope; a key is a 403. */
export const sessionOnly = { security: [SESSION], 'x-session-only': true } satisfies AccessDetail

/** Used together with `requires`: a user must be an owner to call the route; a key needs only its scope. */
export const ownersOnly = { 'x-owners-only': true } satisfies AccessDetail

/** Needs an operator of the service, with a second factor in this session; any other caller gets a 403. */
export const operatorsOnly = { ...requiresSession, 'x-operators-only': true } satisfies AccessDetail

/** Needs the operator at the command line of the machine, over the admin socket; any other caller gets a 403. */
export const commandsOnly = { ...operatorsOnly, 'x-commands-only': true } satisfies AccessDetail

/**
 * For a GET that changes something: like any change, it must not be callable by another site's page with a user's
 * session.
 */
export const changesByGet = { 'x-changes': true } satisfies AccessDetail

/** The route needs no key and ignores one that is sent. Only for paths without parameters. */
export const publicRoute: { security: Record<string, string[]>[] } = { security: [] }

/** What the API description says of a route, and who may call it. */
export const describeRoute = <Access extends object>(
  summary: string,
  access: Access,
  description?: string,
  more: object = {},
) => ({ summary, ...(description !== undefined && { description }), ...access, ...more })

export const ERROR_RESPONSES = 'x-refusals'

/**
 * `detail: { ..., ...errorResponses({ 409: ['name_taken', 'The name is taken.'] }) }`: for each status, the error code
 * and when the error occurs.
 */
export const errorResponses = (refusals: Readonly<Record<number, readonly [code: string, when: string]>>) => ({
  [ERROR_RESPONSES]: refusals,
})

export const RESPONSE_HEADERS = 'x-response-headers'

/** Headers that a success of this route may have; each is a component of the description. */
export const responseHeaders = (...names: readonly string[]) => ({ [RESPONSE_HEADERS]: names })

export const LOCATED_AT = 'x-located-at'

/** What the route creates is read at `path` and its id, not below the path of the route. */
export const locatedAt = (path: string) => ({ [LOCATED_AT]: path })
