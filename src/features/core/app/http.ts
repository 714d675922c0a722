/** @module What every feature's routes share: the actor of a request, and the scope that a route asks for. */
import { requires as requiresScope } from '#platform/http/access.ts'
import { authenticatedAs } from '#platform/http/request-context.ts'
import type { Actor } from './app.ts'

/** Gives `actor` to the handlers of a feature. */
export const authenticated = authenticatedAs<Actor>()

/** For a route's `detail`: the scope a key needs. */
export const requires = requiresScope<string>
