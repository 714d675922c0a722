/**
 * @module What a route says about who may call it, inside its `detail`, so that authentication and the API description cannot disagree.
 * Every route under /v1 must say it; `server.ts` refuses to start otherwise. Routes elsewhere (pages, health) are public.
 */

export const REQUIRED_SCOPE = 'x-required-scope'

const EITHER_HEADER = [{ bearer: [] }, { serviceApiKey: [] }]

/** `detail: { summary: '...', ...requires('domains:read') }`: needs a key with this scope. */
export const requires = <Scope extends string>(scope: Scope) => ({
  security: EITHER_HEADER,
  [REQUIRED_SCOPE]: scope,
})

/** Needs a key, whatever its scopes. */
export const requiresAnyKey = { security: EITHER_HEADER, [REQUIRED_SCOPE]: '' }

/** Needs no key and ignores any. Only for paths without parameters. */
export const publicRoute: { security: Record<string, string[]>[] } = { security: [] }
