/**
 * @module What a route says about who may call it, inside its `detail`, so that authentication and the API description cannot disagree.
 * Every route under /v1 must say it; `server.ts` refuses to start otherwise. Routes elsewhere (pages, health) are public.
 */

export const REQUIRED_SCOPE = 'x-required-scope'

const EITHER_HEADER = [{ bearer: [] }, { serviceApiKey: [] }]

/** `detail: { summary: '...', ...requires('domains:read') }`: needs a key with this scope; of several, with all of them. */
export const requires = <Scope extends string>(...scopes: readonly [Scope, ...Scope[]]) => ({
  security: EITHER_HEADER,
  [REQUIRED_SCOPE]: scopes.join(' '),
})

/** The scopes of what stands under REQUIRED_SCOPE; none: any key will do. */
export const scopesIn = (required: string): readonly string[] => (required === '' ? [] : required.split(' '))

/** Needs a key, whatever its scopes. */
export const requiresAnyKey = { security: EITHER_HEADER, [REQUIRED_SCOPE]: '' }

/** Needs no key and ignores any. Only for paths without parameters. */
export const publicRoute: { security: Record<string, string[]>[] } = { security: [] }
