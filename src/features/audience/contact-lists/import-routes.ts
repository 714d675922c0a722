/** @module Contacts as CSV files, import and export: paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { EXPORT_WORK_UNITS } from '#features/core/accounts/work-budget.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, requires } from '#features/core/app/http.ts'
import { getList } from '#features/setup/contact-store/lists.ts'
import { CONTACT_STATUSES } from '#features/setup/contact-store/status.ts'
import type { BodyStream } from '#platform/http/body-stream.ts'
import { CSV_TYPE, csvResponseSpec, csvStreamBody } from '#platform/http/csv.ts'
import { streamDownload } from '#platform/http/download.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
import { DataBody, StringEnum, Uuid } from '#platform/http/schemas.ts'
import { exportChunks } from './export.ts'
import { startImport } from './start-import.ts'

const tags = ['Contact lists']
const params = Type.Object({ id: Type.String({ description: 'Id of the contact list.' }) })

const ImportBegun = Type.Object({
  operation_id: Uuid({
    description: 'Operation that imports the file; `GET /v1/operations/{id}` shows its progress.',
  }),
  message: Type.String({ description: 'What happens now, in words.' }),
})

export const contactFileRoutes = (app: App) =>
  new Elysia({ prefix: '/v1/contact-lists' })
    .use(authenticated)
    .post(
      '/:id/contacts/import',
      async ({ actor, params, query, body, set }) => {
        const operationId = await startImport(app, actor, {
          listId: params.id,
          confirmed: query.confirmed === 'true',
          body: body as BodyStream | undefined,
        })
        set.status = 202
        return dataBody({
          operation_id: operationId,
          message: 'The file is being imported; its operation shows the progress.',
        })
      },
      {
        params,
        query: Type.Object({
          confirmed: Type.Optional(
            StringEnum(['true', 'false'], {
              description:
                'Whether the contacts have already confirmed, so that a list with double opt-in sends them no confirmation requests.',
            }),
          ),
        }),
        response: { 202: DataBody(ImportBegun) },
        detail: {
          summary: 'Import contacts from CSV',
          description:
            'The response comes when the whole file is stored; its operation shows how many lines were imported and what is wrong with the first 100 others. Contacts that are already on the list stay as they are and count as completed; their number is `metadata.duplicates`. A line whose status is unsubscribed, bounced or complained adds its contact with that status.',
          tags,
          ...csvStreamBody(
            'The first line names the columns: email (or e-mail, mail, address, email address), and optionally status, metadata (a JSON object) and others, which become metadata of that name; the times of an export are ignored. A single column of addresses needs no header. Separated by comma or semicolon, in UTF-8.',
          ),
          ...requires('contacts:write'),
          ...errorResponses({
            415: ['unsupported_media_type', 'The body is not text/csv, or is compressed.'],
            429: ['too_many_imports', 'Too many imports of the account are unfinished.'],
            507: ['insufficient_storage', 'The server has no disk space left.'],
          }),
        },
      },
    )
    .get(
      '/:id/contacts/export',
      ({ actor, params, query, request }) => {
        const list = getList(app.db, actor.accountId, params.id)
        app.workBudget.spend(actor.accountId, EXPORT_WORK_UNITS)
        return streamDownload(app, request, () => exportChunks(app.db, list.id, query.status), {
          contentType: `${CSV_TYPE}; charset=utf-8`,
          filename: 'contacts.csv',
        })
      },
      {
        params,
        query: Type.Object({
          status: Type.Optional(StringEnum(CONTACT_STATUSES, { description: 'Only contacts with this status.' })),
        }),
        detail: {
          summary: 'Export the contacts as CSV',
          description:
            'Oldest first; an import can read it again. An apostrophe precedes values that a spreadsheet would treat as a formula; an import removes it.',
          tags,
          ...csvResponseSpec('Columns email, status, subscribed_at, unsubscribed_at, created_at and metadata.'),
          ...requires('contacts:read'),
        },
      },
    )
