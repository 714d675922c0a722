/**
 * @module What a route says about who may call it, inside its `detail`, so that authentication and the API description cannot disagree.
 * Every route under /v1 must say it; `server.ts` refuses to start otherwise. Routes elsewhere (pages, health) are public.
 */

export const REQUIRED_SCOPE = 'x-required-scope'
export const SESSION_ONLY = 'x-session-only'
export const OWNERS_ONLY = 'x-owners-only'
export const CHANGES = 'x-changes'

const SESSION = { session: [] }
const ANY_CREDENTIAL = [{ bearer: [] }, { serviceApiKey: [] }, SESSION]

/** `detail: { summary: '...', ...requires('domains:read') }`: needs a key, or a user who is signed in, with this scope; of several, with all of them. */
export const requires = <Scope extends string>(...scopes: readonly [Scope, ...Scope[]]) => ({
  security: ANY_CREDENTIAL,
  [REQUIRED_SCOPE]: scopes.join(' '),
})

/** The scopes of what stands under REQUIRED_SCOPE; none: any key will do. */
export const parseScopes = (required: string): readonly string[] => (required === '' ? [] : required.split(' '))

/** Needs a user who is signed in, whatever the role; a key is a 403. */
export const requiresSession = { security: [SESSION], [REQUIRED_SCOPE]: '', [SESSION_ONLY]: true }

/** Beside `requires`: of users only owners may; a key is asked for its scope alone. */
export const ownersOnly = { [OWNERS_ONLY]: true }

/** Of a GET that changes something: as of any other change, a page of another site must not be able to ask for it with a user's session. */
export const changesByGet = { [CHANGES]: true }

/** Needs no key and ignores any. Only for paths without parameters. */
export const publicRoute: { security: Record<string, string[]>[] } = { security: [] }
