/**
 * @module Declares in a route's `detail` who may call it, so that authentication and the API description cannot
 * disagree. Every route under /v1 must declare this, or `server.ts` refuses to start. Other routes (pages, health) are
 * public.
 */

export const REQUIRED_SCOPE = 'x-required-scope'
export const ALTERNATIVE_SCOPE = 'x-alternative-scope'
export const SESSION_ONLY = 'x-session-only'
export const OWNERS_ONLY = 'x-owners-only'
export const OPERATORS_ONLY = 'x-operators-only'
export const COMMANDS_ONLY = 'x-commands-only'
export const CHANGES = 'x-changes'

const SESSION = { session: [] }
const ANY_CREDENTIAL = [{ bearer: [] }, { serviceApiKey: [] }, SESSION]

/**
 * `detail: { summary: '...', ...requires('domains:read') }`: needs a key or a signed-in user with this scope; with
 * several scopes, needs all of them.
 */
export const requires = <Scope extends string>(...scopes: readonly [Scope, ...Scope[]]) => ({
  security: ANY_CREDENTIAL,
  [REQUIRED_SCOPE]: scopes.join(' '),
})

/** Used after `requires`: this scope alone also opens the route. Its handler hides what only the others may read. */
export const orScope = (scope: string) => ({ [ALTERNATIVE_SCOPE]: scope })

/** Needs any key; what the key may do is up to the handler. */
export const anyKey = { security: ANY_CREDENTIAL, [REQUIRED_SCOPE]: '' }

/** Parses the value of REQUIRED_SCOPE; no scopes: any key will do. */
export const parseScopes = (required: string): readonly string[] => (required === '' ? [] : required.split(' '))

/** Needs a signed-in user of any role; a key is a 403. */
export const requiresSession = { security: [SESSION], [REQUIRED_SCOPE]: '', [SESSION_ONLY]: true }

/** Used after `requires`: needs a signed-in user whose role has the scope; a key is a 403. */
export const sessionOnly = { security: [SESSION], [SESSION_ONLY]: true }

/** Used together with `requires`: a user must be an owner to call the route; a key needs only its scope. */
export const ownersOnly = { [OWNERS_ONLY]: true }

/** Needs an operator of the service, with a second factor in this session; any other caller gets a 403. */
export const operatorsOnly = { ...requiresSession, [OPERATORS_ONLY]: true }

/** Needs the operator at the command line of the machine, over the admin socket; any other caller gets a 403. */
export const commandsOnly = { ...operatorsOnly, [COMMANDS_ONLY]: true }

/**
 * For a GET that changes something: like any change, it must not be callable by another site's page with a user's
 * session.
 */
export const changesByGet = { [CHANGES]: true }

/** The route needs no key and ignores one that is sent. Only for paths without parameters. */
export const publicRoute: { security: Record<string, string[]>[] } = { security: [] }

/** What the API description says of a route, and who may call it. */
export const describeRoute = <Access extends object>(
  summary: string,
  access: Access,
  description?: string,
  more: object = {},
) => ({ summary, ...(description !== undefined && { description }), ...access, ...more })
