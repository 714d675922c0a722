/**
 * @module `authenticated` and `requires` of platform/http, typed with our actors, for routes that need an API key or a
 * session. Public routes and pages use neither.
 */
import { requires as requiresScope } from '#platform/http/access.ts'
import { authenticatedAs } from '#platform/http/request-context.ts'
import type { Actor } from './app.ts'

/** An Elysia plugin that adds `actor`, the caller, to the context of route handlers. */
export const authenticated = authenticatedAs<Actor>()

/** States, in the `detail` of a route, the scope that the caller must have. */
export const requires = requiresScope<string>
