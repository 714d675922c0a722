/** @module Routes of /v1/domains that show what DNS has now, and what to publish as a zone file. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { createDownload, fileResponseSpec } from '#platform/http/download.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { runDnsCheck, TOO_MANY_CHECKS } from './dns-check-slots.ts'
import { getDomain } from './domains.ts'
import { PublishedDnsWire, toPublishedDnsWire } from './model.ts'
import { type PublishedDns, readPublishedDns } from './published-dns.ts'
import { formatZoneFile } from './zone-file.ts'

const params = Type.Object({ id: Type.String({ description: 'Id of the domain.' }) })
const tags = ['Domains']

export const domainDnsRoutes = (app: App) => {
  const read = (actor: Actor, id: string): Promise<PublishedDns> => {
    const domain = getDomain(app.db, actor.accountId, id)
    return runDnsCheck(app, actor.accountId, () => readPublishedDns(app, domain))
  }
  return new Elysia({ prefix: '/v1/domains' })
    .use(authenticated)
    .get('/:id/dns', async ({ actor, params: { id } }) => dataBody(toPublishedDnsWire(await read(actor, id))), {
      params,
      response: DataBody(PublishedDnsWire),
      detail: {
        summary: 'Compare the DNS of a domain with its records',
        description:
          'Asks DNS now, and names each record as the DNS provider wants it typed. Changes nothing: `POST /v1/domains/{id}/verify` stores what it finds.',
        tags,
        ...TOO_MANY_CHECKS,
        ...requires('domains:read'),
      },
    })
    .get(
      '/:id/zone-file',
      async ({ actor, params: { id } }) => {
        const dns = await read(actor, id)
        return createDownload(Buffer.from(formatZoneFile(dns)), {
          contentType: 'text/plain',
          filename: `${dns.domain}.zone.txt`,
        })
      },
      {
        params,
        detail: {
          summary: 'Download the DNS records of a domain as a zone file',
          description:
            'Asks DNS now. Only records that are missing are lines to import (RFC 1035 §5); those that exist or could not be looked up are comments, so that an import never duplicates or replaces any.',
          tags,
          ...fileResponseSpec('The zone file.', 'text/plain'),
          ...TOO_MANY_CHECKS,
          ...requires('domains:read'),
        },
      },
    )
}
