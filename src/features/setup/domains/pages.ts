/**
 * @module /t/tls-allowed, which a reverse proxy asks before it creates a certificate for the host name of an incoming
 * connection. Responds 200 for the public host of the service and for verified tracking domains, else 404, without a
 * body. Public; reveals no more than DNS does. Its path is below /t/ because tracking hosts serve that prefix; it is
 * in this feature because only this feature knows which hosts are verified.
 */
import { isIP } from 'node:net'
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { getPublicHost, isTrackingHost, normaliseHost } from './tracking-domain.ts'

const MAX_NAME_LENGTH = 253

export const tlsPages = (app: App) =>
  new Elysia().get(
    '/t/tls-allowed',
    ({ query, set }) => {
      const { domain: host = '' } = query
      set.status = host.length <= MAX_NAME_LENGTH && canHaveCertificate(app, normaliseHost(host)) ? 200 : 404
      set.headers['cache-control'] = 'no-store'
    },
    {
      query: Type.Object({ domain: Type.Optional(Type.String()) }),
      detail: { hide: true },
    },
  )

const canHaveCertificate = ({ config, db }: App, host: string): boolean =>
  (host === getPublicHost(config) && isIP(host) === 0) || isTrackingHost(db, host)
