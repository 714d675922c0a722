/** @module /v1/operator/mail: mail for the operator. Paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import type { AuditActor } from '#features/core/audit-logs/audit.ts'
import { recordView, toServiceActor } from '#features/core/audit-logs/view-log.ts'
import { fileResponseSpec, streamDownload } from '#platform/http/download.ts'
import { dataBody, idKey, pageBody } from '#platform/http/envelope.ts'
import { DataBody, PageBody, parsePage, Text } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { MailQuery, OperatorMailDetail, OperatorMailRecord, toMailView } from './model.ts'
import { deleteOperatorMail, findOperatorMail, listOperatorMail, type OperatorMail, readBeginning } from './store.ts'

const params = Type.Object({ id: Text('Id of the message.') })
const MAIL_NOT_FOUND = ['operator_mail_not_found', 'No message has this id.'] as const

/** What is shown of a message; its source may be as long as mail may be. */
const MAX_SHOWN_BYTES = 128 * KiB

/** The text of a message; null: it has none, or cannot be parsed. */
type MailTextReader = (mail: OperatorMail) => Promise<string | null>

interface OperatorMailRouteOptions {
  readonly readText: MailTextReader
  /** Processes a message again as if it had just arrived. */
  readonly retry: (app: App, id: string, actor: AuditActor) => Promise<void>
}

export const operatorMailRoutes = (app: App, { readText, retry }: OperatorMailRouteOptions) =>
  new Elysia({ prefix: '/v1/operator/mail' })
    .use(authenticated)
    .get(
      '/',
      async ({ actor, query }) => {
        await recordView(app, actor, { name: 'operator_mails' })
        const page = parsePage(query)
        const { mail, total } = listOperatorMail(app.db, { kind: query.kind, ...page })
        return pageBody(mail.map(toMailView), { ...page, total }, idKey(mail))
      },
      {
        query: MailQuery,
        response: PageBody(OperatorMailRecord),
        detail: operatorRoute(
          'List mail for the operator',
          'To postmaster and abuse, and reports that could not be parsed; newest first.',
        ),
      },
    )
    .get(
      '/:id',
      async ({ actor, params }) => {
        const found = await readOperatorMail(app, readText, params.id)
        await recordView(app, actor, { name: 'operator_mail', id: found.id })
        return dataBody(found)
      },
      {
        params,
        response: DataBody(OperatorMailDetail),
        detail: operatorRoute('Get a message for the operator', undefined, { 404: MAIL_NOT_FOUND }),
      },
    )
    .get(
      '/:id/raw',
      async ({ actor, params, request }) => {
        const mail = findOperatorMail(app.db, params.id)
        const id = formatUuid(mail.uuid)
        await recordView(app, actor, { name: 'operator_mail', id })
        const file = { contentType: 'message/rfc822', filename: `${id}.eml` }
        return streamDownload(app, request, () => app.rawMail.chunks(mail.rawRef), file)
      },
      {
        params,
        detail: {
          ...operatorRoute('Get the source of a message for the operator', 'As received.', { 404: MAIL_NOT_FOUND }),
          ...fileResponseSpec('The message.', 'message/rfc822'),
        },
      },
    )
    .post('/:id/retry', ({ actor, params }) => retry(app, params.id, toServiceActor(actor)), {
      params,
      detail: operatorRoute(
        'Process a message for the operator again',
        'A bounce or complaint that could not be read takes effect; other mail returns to the list.',
        {
          404: MAIL_NOT_FOUND,
          409: ['no_destination', 'None of its recipients belongs to this host, or a mailbox is full.'],
        },
      ),
    })
    .delete('/:id', ({ actor, params }) => deleteOperatorMail(app, params.id, toServiceActor(actor)), {
      params,
      detail: operatorRoute('Delete a message for the operator', undefined, { 404: MAIL_NOT_FOUND }),
    })

/** A message with its text and the beginning of its source. Throws 404 for an unknown id. */
async function readOperatorMail(app: App, readText: MailTextReader, id: string): Promise<OperatorMailDetail> {
  const mail = findOperatorMail(app.db, id)
  const bytes = readBeginning(app, mail.rawRef, MAX_SHOWN_BYTES)
  if (!bytes) app.log.warn({ mail: formatUuid(mail.uuid) }, 'operator mail: raw message no longer stored')
  return {
    ...toMailView(mail),
    text: bytes ? ((await readText(mail))?.slice(0, MAX_SHOWN_BYTES) ?? null) : null,
    source: bytes ? new TextDecoder().decode(bytes) : null,
  }
}
