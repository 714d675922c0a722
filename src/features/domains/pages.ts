/**
 * @module /t/tls-allowed: what a reverse proxy asks before it makes a certificate for a host name that somebody has connected to. Public, and says no
 * more than DNS does.
 */
import { isIP } from 'node:net'
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/app.ts'
import { isTrackingHost, publicHost } from './tracking-domain.ts'

const LONGEST_NAME = 253

export const tlsPages = (app: App) =>
  new Elysia().get(
    '/t/tls-allowed',
    ({ query, set }) => {
      const { domain: host = '' } = query
      set.status = host.length <= LONGEST_NAME && mayHaveCertificate(app, host.toLowerCase()) ? 200 : 404
      set.headers['cache-control'] = 'no-store'
    },
    {
      query: Type.Object({ domain: Type.Optional(Type.String({ description: 'The host name.' })) }),
      detail: {
        summary: 'Whether a certificate may be made for a host name',
        description:
          '200 for the public host of the service and for verified tracking domains, else 404; without a body.',
        tags: ['Health'],
      },
    },
  )

const mayHaveCertificate = ({ config, db }: App, host: string): boolean =>
  (host === publicHost(config) && isIP(host) === 0) || isTrackingHost(db, host)
