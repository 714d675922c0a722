/** @module The routes of /v1/inbound: paths, schemas, one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith } from '#features/core/app/http.ts'
import { createBodyReader, downloadStored, toContentState } from '#features/core/app/stored-content.ts'
import { createRawDownload, getAttachment } from '#features/receiving/received/parts.ts'
import { fileResponseSpec } from '#platform/http/download.ts'
import { dataBody, idKey, pageBody } from '#platform/http/envelope.ts'
import { DataBody, PageBody, PageQuery, parsePage, TextOrNull } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { deleteInbound, getInbound, type InboundEmail, listInbound, MAX_FILTERED_EMAILS } from './inbound-emails.ts'
import * as model from './model.ts'

const tags = ['Inbound']
const reads = describeWith('inbound:read')
// Null when the percent-encoding in the path is invalid; null matches no email.
const id = TextOrNull('Id of the inbound email.')
const params = Type.Object({ id })
const attachmentParams = Type.Object({
  id,
  n: TextOrNull('Number of the attachment, from 0, as in `index`.'),
})

export const inboundRoutes = (app: App) => {
  const getRequested = (accountId: number, text: string | null): InboundEmail =>
    getInbound(app.db, accountId, text ?? '')
  return new Elysia({ prefix: '/v1/inbound', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { status, route_id, domain_id, from, spam, forward } = query
        const filter = { status, route_id, domain_id, from, spam, forward }
        // Filtered lists have a maximum length.
        const isFiltered = Object.values(filter).some((value) => value !== undefined)
        const { emails, total } = listInbound(app.db, actor.accountId, filter, page)
        const rows = emails.map((email) => model.toInboundWire(email, actor.accountUuid))
        return pageBody(rows, { ...page, total }, isFiltered ? undefined : idKey(emails))
      },
      {
        query: model.InboundQuery,
        response: PageBody(model.InboundRecord),
        detail: reads(
          'List inbound mail',
          `Newest first, without bodies and headers. Filtered lists reach and count the newest ${MAX_FILTERED_EMAILS}.`,
        ),
      },
    )
    .get(
      '/:id',
      ({ actor, params }) => {
        const email = getRequested(actor.accountId, params.id)
        const bodies = createBodyReader(app)
        const [headers, text, html] = [email.headersRef, email.textRef, email.htmlRef].map(bodies.read)
        bodies.check(email.attachments.map(({ ref }) => ref))
        return dataBody({
          ...model.toInboundWire(email, actor.accountUuid),
          forwarded: model.toForwardedWire(app.db, email),
          ...toContentState(bodies.isMissing),
          text_body: text ?? null,
          html_body: html ?? null,
          raw_headers:
            headers == null
              ? null
              : model.toHeadersWire(JSON.parse(headers) as [string, string][], app.config.hostname),
        })
      },
      {
        params,
        response: DataBody(model.InboundDetail),
        detail: reads('Get an inbound email'),
      },
    )
    .delete('/:id', ({ actor, params }) => deleteInbound(app, actor, params.id ?? ''), {
      params,
      detail: describeWith('inbound:write')(
        'Delete an inbound email',
        'What of it waits for webhooks or for addresses of its route is cancelled. A 409 `forward_in_flight` while a server gets it.',
      ),
    })
    .get(
      '/:id/raw',
      ({ actor, params, request }) => {
        const email = getRequested(actor.accountId, params.id)
        return createRawDownload(app, request, email, formatUuid(email.uuid))
      },
      {
        params,
        detail: reads(
          'Get the raw message',
          'As received, below the trace fields of this host; kept for TASSIS_INBOUND_RAW_DAYS.',
          fileResponseSpec('The message.', 'message/rfc822'),
        ),
      },
    )
    .get(
      '/:id/attachments',
      ({ actor, params, query }) => {
        const page = parsePage(query)
        const listed = getRequested(actor.accountId, params.id).attachments.map(model.toInboundAttachmentWire)
        return pageBody(listed.slice(page.offset, page.offset + page.perPage), { ...page, total: listed.length })
      },
      {
        params,
        query: PageQuery,
        response: PageBody(model.InboundAttachment),
        detail: reads('List the attachments of an inbound email', 'In order; numbers start at 0.'),
      },
    )
    .get(
      '/:id/attachments/:n',
      ({ actor, params, request }) => {
        const { attachments } = getRequested(actor.accountId, params.id)
        return downloadStored(app, request, getAttachment(attachments, params.n ?? ''))
      },
      {
        params: attachmentParams,
        detail: reads(
          'Get the content of an attachment',
          'The original bytes, always as a download. Types that a browser could run, such as HTML, are sent as application/octet-stream.',
          fileResponseSpec('The decoded content.'),
        ),
      },
    )
}
