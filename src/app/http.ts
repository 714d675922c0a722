/**
 * @module The whole HTTP surface on one screen: every feature's routes and pages.
 */
import type { AnyElysia } from 'elysia'
import type { Actor } from '#features/app.ts'
import { hasScope } from '#features/api-keys/scopes.ts'
import { maxAttempts } from '#features/delivery/retry.ts'
import { emailRoutes } from '#features/emails/routes.ts'
import { parseHostPort } from '#platform/config.ts'
import { createHttpServer, type HttpServer } from '#platform/http/server.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import type { OpenedApp } from './create.ts'

/** How long the body of a request may take to arrive. */
const REQUEST_TIMEOUT_SECONDS = 60

/** The server with all routes; it does not listen yet. */
export function createHttp({ app, authenticator }: OpenedApp): HttpServer {
  const routes: AnyElysia[] = [emailRoutes(app, { maxAttempts: maxAttempts(app.config.retryExpiryHours) })]
  return createHttpServer<Actor>({
    config: {
      maxBodyBytes: app.config.maxBodyBytes,
      trustedProxies: app.config.trustedProxies,
      requestTimeoutSeconds: REQUEST_TIMEOUT_SECONDS,
    },
    log: app.log,
    clock: app.clock,
    memory: app.memory,
    newRequestId: () => formatUuid(newUuid()),
    authenticate: (key, clientIp) => {
      const actor = authenticator.authenticate(key)
      return actor && { ...actor, ipAddress: clientIp() }
    },
    hasScope: (actor, scope) => hasScope(actor.scopes, scope),
    routes,
  })
}

/** Binds the server to the configured address. Throws what the system says, for example EADDRINUSE. */
export function listenHttp(http: HttpServer, httpAddr: string): { hostname: string; port: number } {
  const address = parseHostPort(httpAddr)
  if (!address) throw new TypeError(`not an address: ${httpAddr}`)
  return http.listen(address.host, address.port)
}
