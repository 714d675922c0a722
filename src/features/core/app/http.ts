/**
 * @module `authenticated` and `requires` of platform/http, typed with our actors, for routes that need an API key or a
 * session. Public routes and pages use neither.
 */
import {
  commandsOnly,
  describeRoute,
  errorResponses,
  operatorsOnly,
  orScope,
  requires as requiresScope,
} from '#platform/http/access.ts'
import { authenticatedAs } from '#platform/http/request-context.ts'
import type { Actor } from './app.ts'

/** An Elysia plugin that adds `actor`, the caller, to the context of route handlers. */
export const authenticated = authenticatedAs<Actor>()

/** States, in the `detail` of a route, the scope that the caller must have. */
export const requires = requiresScope<string>

/**
 * What the role support has in place of scopes; no API key has it. It opens the routes that say so by `orSupport`
 * and no others; these hide what the scopes would show of the contents of mail.
 */
export const SUPPORT_RIGHT = 'support'

/** Added to the `detail` of a route whose response has no contents of mail. */
export const orSupport = orScope(SUPPORT_RIGHT)

export const requiresOrSupport = (...scopes: Parameters<typeof requires>) => ({ ...requires(...scopes), ...orSupport })

/** The function that makes the `detail` of routes whose caller must have these scopes. */
export const describeWith =
  (...scopes: Parameters<typeof requires>) =>
  (summary: string, description?: string, more?: object) =>
    describeRoute(summary, requires(...scopes), description, more)

/** The `detail` of a route that only operators may call. */
export const operatorRoute = (
  summary: string,
  description?: string,
  errors: Parameters<typeof errorResponses>[0] = {},
) => ({
  summary,
  ...(description !== undefined && { description }),
  tags: ['Operator'],
  ...operatorsOnly,
  ...errorResponses(errors),
})

/** The `detail` of a route that only commands on the machine may call. */
export const commandRoute = (...route: Parameters<typeof operatorRoute>) => ({
  ...operatorRoute(...route),
  ...commandsOnly,
})
