/** @module /v1/suppressions: paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, describeWith, requiresOrSupport } from '#features/core/app/http.ts'
import { describeRoute } from '#platform/http/access.ts'
import { CSV_TYPE, csvBody, csvResponseSpec, streamDownload } from '#platform/http/download.ts'
import { dataBody, pageById } from '#platform/http/envelope.ts'
import { liftTimeLimit, restoreTimeLimit } from '#platform/http/request-context.ts'
import { DataBody, PageBody, parsePage, TextOrNull } from '#platform/http/schemas.ts'
import { CSV_HEADER, formatRows, importSuppressions } from './csv.ts'
import * as model from './model.ts'
import { addSuppression, listSuppressions, listSuppressionsAfter, removeSuppression } from './suppressions.ts'

const tags = ['Suppressions']
const writes = describeWith('suppressions:write')
const params = Type.Object({
  // Null when its percent-encoding is invalid; then it is not an address either.
  email: TextOrNull('The address, URL-encoded, in any spelling.'),
})

/** Rows read and written at a time: about 1 ms. */
const BATCH_SIZE = 250

/** The file in chunks that are read on demand, oldest first. Concurrent changes may or may not be included. */
function* exportChunks({ db }: Pick<App, 'db'>, accountId: number): Generator<Uint8Array> {
  for (let after: number | undefined = 0; after !== undefined; ) {
    const rows = listSuppressionsAfter(db, accountId, after, BATCH_SIZE)
    yield Buffer.from((after === 0 ? CSV_HEADER : '') + formatRows(rows))
    after = rows.length < BATCH_SIZE ? undefined : rows.at(-1)?.id
  }
}

export const suppressionRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/suppressions', tags })
    .use(authenticated)
    .get(
      '/',
      ({ actor, query }) => {
        const page = parsePage(query)
        const filter = { reason: query.reason, address: query.email }
        const { suppressions, total } = listSuppressions(app.db, actor.accountId, filter, page)
        return pageById(suppressions, { ...page, total }, (row) => model.suppressionWire(row, actor.accountUuid))
      },
      {
        query: model.SuppressionQuery,
        response: PageBody(model.SuppressionRecord),
        detail: describeRoute(
          'List suppressions',
          requiresOrSupport('suppressions:read'),
          'Newest first. An address can have one suppression that stops all mail, and one for each stream or contact list it unsubscribed from.',
        ),
      },
    )
    .post(
      '/',
      async ({ actor, body, status }) => {
        const suppression = await addSuppression(app, actor, { address: body.email_address, reason: body.reason })
        return status(201, dataBody(model.suppressionWire(suppression, actor.accountUuid)))
      },
      {
        body: model.NewSuppressionRequest,
        response: { 201: DataBody(model.SuppressionRecord) },
        detail: writes('Suppress an address', 'An existing suppression stays as it is and is returned.'),
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
        detail: describeWith('suppressions:read')(
          'Export the suppressions as CSV',
          'Oldest first. An apostrophe precedes values that a spreadsheet would treat as a formula; an import removes it.',
          csvResponseSpec('Columns email_address, reason, stream and list.'),
        ),
      },
    )
    .post(
      '/import',
      async ({ actor, body, query, request }) => {
        liftTimeLimit(request)
        const file = body instanceof Uint8Array ? body : new Uint8Array()
        const imported = importSuppressions(app, actor, file, query.reason, query.dry_run === 'true')
        return await imported.finally(() => restoreTimeLimit(request))
      },
      {
        query: model.ImportQuery,
        response: model.ImportResult,
        detail: writes(
          'Import suppressions from CSV',
          'A file that cannot be read imports nothing; invalid lines are reported and skipped. The same file can be imported again.',
          csvBody(
            "The first line names the columns: email_address (or email, or address), and optionally reason, and stream (its slug) or list (its id) of the reason unsubscribe. created_at is when another service suppressed it. Others are ignored, and other services' words for a reason are recognised. Addresses alone, or each with a reason, need no header. Separated by comma or semicolon, in UTF-8.",
          ),
        ),
      },
    )
    .delete('/:email', async ({ actor, params }) => void (await removeSuppression(app, actor, params.email ?? '')), {
      params,
      detail: describeRoute(
        'Unsuppress an address',
        requiresOrSupport('suppressions:write'),
        'Removes all suppressions of the address, and reactivates the contacts that they stopped. An unknown address is not an error.',
      ),
    })
