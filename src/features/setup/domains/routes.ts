/** @module Routes of /v1/domains, and /t/tls-allowed. */
import { isIP } from 'node:net'
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { actForAccount } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { authenticated, commandRoute, describeWith, orSupport } from '#features/core/app/http.ts'
import { createDownload, fileResponseSpec } from '#platform/http/download.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage } from '#platform/http/schemas.ts'
import { runDnsCheck, TOO_MANY_CHECKS } from './dns-check-slots.ts'
import { changeDomain, createDomain, type Domain, getDomain, listDomains } from './domains.ts'
import * as model from './model.ts'
import { readPublishedDns } from './published-dns.ts'
import { startDkimRotation } from './rotate-dkim.ts'
import { removeTrackingDomain, setTrackingDomain } from './set-tracking.ts'
import { getCnameTarget, getPublicHost, isTrackingHost, normaliseHost } from './tracking-domain.ts'
import { verifyDomain, verifyTracking, vouchForDomain } from './verify.ts'
import { formatZoneFile } from './zone-file.ts'

const IdParam = Type.Object({ id: Type.String({ description: 'Id of the domain.' }) })
const tags = ['Domains']
const ONE = { params: IdParam, response: DataBody(model.DomainWire) }
const reads = describeWith('domains:read')
const writes = describeWith('domains:write')

/**
 * Deleting a domain also ends its mail, which is a use case of another feature. That use case is passed in, because its
 * feature depends on this one.
 */
export interface DomainUseCases {
  readonly deleteDomain: (app: App, actor: Actor, id: string) => Promise<void>
}

export const domainRoutes = (app: App, { deleteDomain }: DomainUseCases) => {
  const toBody = (domain: Domain) => dataBody(model.toDomainWire(app, domain))
  return new Elysia({ prefix: '/v1/domains', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { domains, total } = listDomains(app.db, actor.accountId, page)
        return pageById(domains, { ...page, total }, (domain) => model.toDomainWire(app, domain))
      },
      {
        query: PageQuery,
        response: PageBody(model.DomainWire),
        detail: { ...reads('List domains', 'Newest first.'), ...orSupport },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const { domain, warnings } = await createDomain(app, actor, body.domain, body)
        const data = model.toDomainWire(app, domain)
        return status(201, warnings.length > 0 ? { data, warnings } : { data })
      },
      {
        body: model.NewDomain,
        response: { 201: model.CreatedDomain },
        detail: writes(
          'Register a domain',
          'Creates its DKIM key, or keeps that of another mail service, so that its record stays. Publish the `dns_records`, then verify.',
        ),
      },
    )
    .get('/:id', ({ actor, params }) => toBody(getDomain(app.db, actor.accountId, params.id)), {
      ...ONE,
      detail: reads('Get a domain'),
    })
    .patch(
      '/:id',
      async ({ actor, params, body }) =>
        toBody(await changeDomain(app, actor, params.id, { inboundEnabled: body.inbound_enabled })),
      { ...ONE, body: model.DomainChange, detail: writes('Enable or disable inbound mail of a domain') },
    )
    .delete('/:id', ({ actor, params }) => deleteDomain(app, actor, params.id), {
      params: IdParam,
      detail: writes('Delete a domain', 'Cancels its scheduled mail; mail already queued is still signed and sent.'),
    })
    .post(
      '/:id/verify',
      async ({ actor, params }) => dataBody(model.toVerificationWire(app, await verifyDomain(app, actor, params.id))),
      {
        params: IdParam,
        response: DataBody(model.VerificationWire),
        detail: writes(
          'Verify a domain',
          'Checks DNS now and reports for each record what was found, what was expected and what to publish. A verified domain that lacks a record still sends for 72 hours. May be called every 10 seconds.',
          TOO_MANY_CHECKS,
        ),
      },
    )
    .post('/:id/rotate-dkim', async ({ actor, params }) => toBody(await startDkimRotation(app, actor, params.id)), {
      ...ONE,
      detail: writes(
        'Rotate the DKIM keys of a domain',
        'Creates new keys, whose records are `dkim_next` and `dkim_ed25519_next`. Publish them beside the present ones: once a check finds them, they sign, and the former selector is in `former_dkim_selectors` until its records may be removed. While keys wait for their records, no others are created.',
      ),
    })
    .put(
      '/:id/tracking-domain',
      async ({ actor, params, body }) => {
        const domain = await setTrackingDomain(app, actor, params.id, body.tracking_domain)
        return { data: model.toDomainWire(app, domain), cname_target: getCnameTarget(app.config) }
      },
      {
        params: IdParam,
        body: model.NewTrackingDomain,
        response: model.TrackingDomainSet,
        detail: writes(
          'Set the host name of tracked links',
          'Publish a CNAME at it that points to `cname_target`, then verify it. A changed name is unverified again.',
        ),
      },
    )
    .delete(
      '/:id/tracking-domain',
      async ({ actor, params }) => toBody(await removeTrackingDomain(app, actor, params.id)),
      {
        ...ONE,
        detail: writes(
          'Remove the host name of tracked links',
          'Links in future mail use the host of the service. Links in mail already sent still need the CNAME; keep the CNAME only below a domain that stays verified here, because otherwise another account may set the host.',
        ),
      },
    )
    .post(
      '/:id/verify-tracking',
      async ({ actor, params }) => {
        const { domain, check } = await verifyTracking(app, actor, params.id)
        return { data: model.toDomainWire(app, domain), tracking_check: check }
      },
      {
        params: IdParam,
        response: model.TrackingVerification,
        detail: writes(
          'Verify the host name of tracked links',
          'Checks DNS now and reports what was found, what was expected and what to publish.',
          TOO_MANY_CHECKS,
        ),
      },
    )
}

/** What DNS has now, and what to publish as a zone file. */
export const domainDnsRoutes = (app: App) => {
  const read = (actor: Actor, id: string): Promise<model.PublishedDnsWire> => {
    const domain = getDomain(app.db, actor.accountId, id)
    return runDnsCheck(app, actor.accountId, () => readPublishedDns(app, domain))
  }
  return new Elysia({ prefix: '/v1/domains', tags })
    .use(authenticated)
    .get('/:id/dns', async ({ actor, params: { id } }) => dataBody(await read(actor, id)), {
      params: IdParam,
      response: DataBody(model.PublishedDnsWire),
      detail: reads(
        'Compare the DNS of a domain with its records',
        'Asks DNS now, and names each record as the DNS provider wants it typed. Changes nothing: `POST /v1/domains/{id}/verify` stores what it finds.',
        TOO_MANY_CHECKS,
      ),
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
        params: IdParam,
        detail: reads(
          'Download the DNS records of a domain as a zone file',
          'Asks DNS now. Only records that are missing are lines to import (RFC 1035 §5); those that exist or could not be looked up are comments, so that an import never duplicates or replaces any.',
          { ...fileResponseSpec('The zone file.', 'text/plain'), ...TOO_MANY_CHECKS },
        ),
      },
    )
}

/** `POST /v1/operator/accounts/{id}/domains/{domain_id}/verify-without-dns`: an operator vouches for a domain. */
export const operatorDomainRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).post(
    '/accounts/:id/domains/:domain_id/verify-without-dns',
    async ({ actor, params }) => {
      const owner = actForAccount(app, actor, params.id)
      return dataBody(model.toDomainWire(app, await vouchForDomain(app, owner, params.domain_id)))
    },
    {
      params: Type.Object({
        id: Type.String({ description: 'Id of the account.' }),
        domain_id: Type.String({ description: 'Id of the domain.' }),
      }),
      response: DataBody(model.DomainWire),
      detail: commandRoute(
        'Mark a domain verified without a DNS check',
        'For networks without DNS. Expires 72 hours after a check that finds no records.',
        { 404: ['domain_not_found', 'The account has no domain with this id, or there is no such account.'] },
      ),
    },
  )

const MAX_NAME_LENGTH = 253

/**
 * A reverse proxy asks it before it creates a certificate for the host name of an incoming connection. Responds 200 for
 * the public host of the service and for verified tracking domains, else 404, without a body. Public; reveals no more
 * than DNS does. Its path is below /t/ because tracking hosts serve that prefix.
 */
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
