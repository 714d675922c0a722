/**
 * @module What the server knows of a request before its route runs: id, actor, peer. `server.ts` sets this context
 * before it reads the body; handlers read it through `authenticatedAs` and `clientIpOf`.
 */
import { Elysia } from 'elysia'
import type { Reservation } from '#platform/process/memory-budget.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { type AppError, unauthorized } from '../errors.ts'
import type { NewRequest, StoredResponse } from './repeated-request.ts'
import type { FieldFilter } from './response-shape.ts'

export interface RequestContext {
  readonly requestId: string
  readonly path: string
  /** The actor that `authenticate` returned; undefined on public routes. */
  actor: unknown
  /** The actor of a request that a process of this machine makes, which needs no key: the admin socket. */
  readonly knownActor?: unknown
  /** Whether a session cookie identified the actor. */
  isSession?: boolean
  /** The first request with an idempotency key, or the response of that. */
  repeat?: NewRequest | StoredResponse
  /** Whether the actor is the guest of a dialect, for whom no account is responsible. */
  isGuest?: boolean
  /** Whether the client refuses fields and statuses that the interface does not have. */
  readonly isStrict?: boolean
  /** For a strict client: cuts the body of the response, once a handler has returned it. */
  strictFilter?: FieldFilter | undefined
  /** Whether the response that a handler returned has rows. */
  hasRows?: boolean
  /** Memory reserved for the body until the handler has finished. */
  reservation: Reservation | undefined
  /** The parsed body, until the handler has finished. */
  body?: unknown
  /** Why the request was refused, and what its body was, in the form of `summariseBody`. */
  error?: AppError
  bodySummary?: string | undefined
  /** Id of what the request created; of several, the first. */
  createdId?: string | undefined
  /** The interface that makes the request for its client, inside of the process. */
  readonly via?: string | undefined
  readonly clientIp: () => string
  /** Sets how long, in seconds, Bun keeps the connection from now until its next request; 0: no limit. */
  readonly setTimeout: (seconds: number) => void
  /** Resolves when the actor's turn comes; undefined when the server does not schedule requests by actor. */
  yieldFairly?: () => Promise<void>
  /** The default time limit of a connection. */
  readonly idleSeconds: number
}

const contexts = new WeakMap<Request, RequestContext>()

export const setRequestContext = (request: Request, context: RequestContext): void => {
  contexts.set(request, context)
}

/** Undefined for a request that did not come through the server. */
export const requestContext = (request: Request): RequestContext | undefined => contexts.get(request)

/** The client's address: the peer, or what a trusted proxy reports. Empty when the connection is gone. */
export const clientIpOf = (request: Request): string => contexts.get(request)?.clientIp() ?? ''

/**
 * Whether the actor has lost access since the request began, which the actor's `mayStillAct` tells. Checked before each
 * piece of a long response.
 */
export const isRevoked = (request: Request): boolean =>
  (contexts.get(request)?.actor as { mayStillAct?: () => boolean } | undefined)?.mayStillAct?.() === false

/** Resolves after other pending work, including that of actors who have used less of the event loop. */
export const yieldFairly = (request: Request): Promise<void> =>
  (contexts.get(request)?.yieldFairly ?? yieldToEventLoop)()

/**
 * Removes the time limit of a request, for streams and long work. The handler must then limit its own time, and call
 * `restoreTimeLimit` at the end.
 */
export const liftTimeLimit = (request: Request): void => contexts.get(request)?.setTimeout(0)

/**
 * Restores the connection's time limit from now on. Without a limit, a connection that stays idle after the response,
 * or sends only half of the next request, would stay open permanently.
 */
export function restoreTimeLimit(request: Request): void {
  const context = contexts.get(request)
  context?.setTimeout(context.idleSeconds)
}

/** Removes the time limit of a request while `work` runs; `work` must limit its own time. */
export async function withoutTimeLimit<T>(request: Request, work: () => Promise<T>): Promise<T> {
  liftTimeLimit(request)
  try {
    return await work()
  } finally {
    restoreTimeLimit(request)
  }
}

/**
 * Ends the request's connection within seconds, even with unsent data: for a client that has stopped reading. Bun 1.4.5
 * has no faster way: an error in the response body waits for the client as well.
 */
export const cutConnection = (request: Request): void => contexts.get(request)?.setTimeout(1)

/**
 * The plugin that passes `actor` to a feature's handlers; on a public route it throws a 401. `Actor` must be the type
 * that the server's `authenticate` returns. Features share one instance: `const authenticated =
 * authenticatedAs<Actor>()`.
 */
export const authenticatedAs = <Actor>() =>
  new Elysia({ name: 'authenticated' }).derive({ as: 'scoped' }, ({ request }): { actor: Actor } => {
    const actor = contexts.get(request)?.actor
    if (actor === undefined) throw unauthorized()
    return { actor: actor as Actor }
  })
