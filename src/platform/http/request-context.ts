/**
 * @module What is known of a request before its route runs: id, actor, peer. Filled in `server.ts` before the body is read; read by
 * handlers through `authenticatedAs` and `clientIpOf`. Never holds the body.
 */
import { Elysia } from 'elysia'
import { yieldToEventLoop } from '../clock.ts'
import { unauthorized } from '../errors.ts'
import type { Reservation } from '../memory-budget.ts'

export interface RequestContext {
  readonly requestId: string
  readonly path: string
  /** What `authenticate` gave for the key; undefined on public routes. */
  actor: unknown
  /** Whether the actor came by the cookie of a session. */
  isSession?: boolean
  /** Memory held for the body until the handler is done. */
  reservation: Reservation | undefined
  readonly clientIp: () => string
  /** Sets how many seconds Bun lets the connection live from now on, until its next request; 0 is no limit. */
  readonly setTimeout: (seconds: number) => void
  /** Resolves when it is the turn of who asks; missing where nobody's turns are counted. */
  yieldFairly?: () => Promise<void>
  /** What a connection has without it. */
  readonly idleSeconds: number
}

const contexts = new WeakMap<Request, RequestContext>()

export const setRequestContext = (request: Request, context: RequestContext): void => {
  contexts.set(request, context)
}

/** Undefined for a request that did not come through the server. */
export const requestContext = (request: Request): RequestContext | undefined => contexts.get(request)

/** Address of the client: the peer, or what a trusted proxy says of it. Empty when the connection is gone. */
export const clientIpOf = (request: Request): string => contexts.get(request)?.clientIp() ?? ''

/**
 * Whether the actor of a request has lost access since it began, by `mayStillAct` of the actor: asked before each piece
 * of a long answer.
 */
export const isRevoked = (request: Request): boolean =>
  (contexts.get(request)?.actor as { mayStillAct?: () => boolean } | undefined)?.mayStillAct?.() === false

/** Resolves when everything else that waits for the event loop, and whoever used less of it than who asks here, has had its turn. */
export const yieldFairly = (request: Request): Promise<void> =>
  (contexts.get(request)?.yieldFairly ?? yieldToEventLoop)()

/** Lifts the time limit of this request, for streams and long work. The handler then bounds its own time, and calls `restoreTimeLimit` at the end. */
export const liftTimeLimit = (request: Request): void => contexts.get(request)?.setTimeout(0)

/**
 * Gives the connection its time limit back, from now on. Without it a connection that `liftTimeLimit` was called for stays open for good, whatever
 * comes after the answer: nothing, or half of a next request.
 */
export function restoreTimeLimit(request: Request): void {
  const context = contexts.get(request)
  context?.setTimeout(context.idleSeconds)
}

/** Lets a request take as long as `work` does, which has to bound its own time. */
export async function withoutTimeLimit<T>(request: Request, work: () => Promise<T>): Promise<T> {
  liftTimeLimit(request)
  try {
    return await work()
  } finally {
    restoreTimeLimit(request)
  }
}

/**
 * Ends the connection of this request within some seconds, whatever is still to be sent: for a client that takes nothing any more. Nothing
 * quicker ends it in Bun 1.4.5: an error in the body of the answer waits for the client as well.
 */
export const cutConnection = (request: Request): void => contexts.get(request)?.setTimeout(1)

/**
 * The plugin that gives `actor` to the handlers of a feature. Used on a route that is public it fails closed, with a 401.
 * The type is the one that the server's `authenticate` returns; features share one instance: `const authenticated = authenticatedAs<Actor>()`.
 */
export const authenticatedAs = <Actor>() =>
  new Elysia({ name: 'authenticated' }).derive({ as: 'scoped' }, ({ request }): { actor: Actor } => {
    const actor = contexts.get(request)?.actor
    if (actor === undefined) throw unauthorized()
    return { actor: actor as Actor }
  })
