/** @module /v1/suppressions: paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { CSV_TYPE, csvBody, csvResponseSpec } from '#platform/http/csv.ts'
import { streamDownload } from '#platform/http/download.ts'
import { dataBody, idKey, pageBody } from '#platform/http/envelope.ts'
import { liftTimeLimit, restoreTimeLimit } from '#platform/http/request-context.ts'
import { DataBody, Nullable, PageBody, parsePage } from '#platform/http/schemas.ts'
import { exportChunks } from './export.ts'
import { importSuppressions } from './import.ts'
import {
  ImportQuery,
  ImportResult,
  NewSuppressionRequest,
  SuppressionQuery,
  SuppressionRecord,
  suppressionWire,
} from './model.ts'
import { addSuppression, listSuppressions, removeSuppression } from './suppressions.ts'

const tags = ['Suppressions']
const params = Type.Object({
  // Null when its percent-encoding is invalid; then it is not an address either.
  email: Nullable(Type.String(), { description: 'The address, URL-encoded, in any spelling.' }),
})

export const suppressionRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/suppressions' })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const { suppressions, total } = listSuppressions(
          app.db,
          actor.accountId,
          { reason: query.reason, address: query.email },
          page,
        )
        return pageBody(
          suppressions.map((suppression) => suppressionWire(suppression, actor.accountUuid)),
          { ...page, total },
          idKey(suppressions),
        )
      },
      {
        query: SuppressionQuery,
        response: PageBody(SuppressionRecord),
        detail: {
          summary: 'List suppressions',
          description:
            'Newest first. An address can have one suppression that stops all mail, and one for each stream or contact list it unsubscribed from.',
          tags,
          ...requires('suppressions:read'),
        },
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const suppression = await addSuppression(app, actor, { address: body.email_address, reason: body.reason })
        return status(201, dataBody(suppressionWire(suppression, actor.accountUuid)))
      },
      {
        body: NewSuppressionRequest,
        response: { 201: DataBody(SuppressionRecord) },
        detail: {
          summary: 'Suppress an address',
          description: 'An existing suppression stays as it is and is returned.',
          tags,
          ...requires('suppressions:write'),
        },
      },
    )
    .get(
      '/export',
      ({ actor, request }) =>
        streamDownload(app, request, () => exportChunks(app, actor.accountId), {
          contentType: `${CSV_TYPE}; charset=utf-8`,
          filename: 'suppressions.csv',
        }),
      {
        detail: {
          summary: 'Export the suppressions as CSV',
          description:
            'Oldest first. An apostrophe precedes values that a spreadsheet would treat as a formula; an import removes it.',
          tags,
          ...csvResponseSpec('Columns email_address, reason, stream and list.'),
          ...requires('suppressions:read'),
        },
      },
    )
    .post(
      '/import',
      async ({ actor, body, query, request }) => {
        liftTimeLimit(request)
        const file = body instanceof Uint8Array ? body : new Uint8Array()
        return await importSuppressions(app, actor, file, query.reason).finally(() => restoreTimeLimit(request))
      },
      {
        query: ImportQuery,
        response: ImportResult,
        detail: {
          summary: 'Import suppressions from CSV',
          description:
            'A file that cannot be read imports nothing; invalid lines are reported and skipped. The same file can be imported again.',
          tags,
          ...csvBody(
            "The first line names the columns: email_address (or email, or address), and optionally reason, and stream (its slug) or list (its id) of the reason unsubscribe. Others are ignored, and other services' words for a reason are recognised. Addresses alone, or each with a reason, need no header. Separated by comma or semicolon, in UTF-8.",
          ),
          ...requires('suppressions:write'),
        },
      },
    )
    .delete(
      '/:email',
      async ({ actor, params, set }) => {
        await removeSuppression(app, actor, params.email ?? '')
        set.status = 204
      },
      {
        params,
        detail: {
          summary: 'Unsuppress an address',
          description:
            'Removes all suppressions of the address, and reactivates the contacts that they stopped. An unknown address is not an error.',
          tags,
          ...requires('suppressions:write'),
        },
      },
    )
