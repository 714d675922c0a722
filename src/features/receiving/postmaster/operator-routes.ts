/** @module /v1/operator/mail: mail for the operator. Paths, schemas and one call each. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { type AuditActor, recordView, toServiceActor } from '#features/core/audit-logs/audit.ts'
import { fileResponseSpec, streamDownload } from '#platform/http/download.ts'
import { dataBody, isoTime, pageById, toWire } from '#platform/http/envelope.ts'
import * as S from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import * as store from './store.ts'

const MailQuery = Type.Object({
  ...S.PAGE_FIELDS,
  kind: Type.Optional(S.StringEnum(store.OPERATOR_MAIL_KINDS, { description: 'Only mail of this kind.' })),
})
const MAIL_FIELDS = {
  id: S.Uuid({ description: 'Id of the message.' }),
  kind: S.Text('postmaster, abuse, bounce, complaint, unsubscribe, report or other.'),
  reason: S.Text('Why the operator gets it.'),
  mail_from: S.Text('Sender of the envelope; empty for the null reverse-path.'),
  rcpt_to: Type.Array(Type.String(), { description: 'Recipients of the envelope.' }),
  from: S.TextOrNull('From as in the header; null: none.'),
  subject: S.Text('Subject.'),
  source_ip: S.Text('Address from which it came.'),
  size_bytes: S.Bytes('Size of the message'),
  received_at: S.Timestamp({ description: 'When it arrived.' }),
}
const OperatorMailRecord = Type.Object(MAIL_FIELDS)
const OperatorMailDetail = Type.Object({
  ...MAIL_FIELDS,
  text: S.TextOrNull('Its text, as far as it is shown; null: none, or it cannot be parsed.'),
  source: S.TextOrNull('Its source, the first part; null: it is no longer stored.'),
})
type OperatorMailDetail = Static<typeof OperatorMailDetail>

const toMailView = (mail: store.OperatorMail) =>
  toWire(OperatorMailRecord, mail, { received_at: isoTime(mail.createdAt) })

const params = Type.Object({ id: S.Text('Id of the message.') })
const MAIL_NOT_FOUND = ['operator_mail_not_found', 'No message has this id.'] as const

/** What is shown of a message; its source may be as long as mail may be. */
const MAX_SHOWN_BYTES = 128 * KiB

/** The text of a message; null: it has none, or cannot be parsed. */
type MailTextReader = (mail: store.OperatorMail) => Promise<string | null>

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
        const page = S.parsePage(query)
        const { mail, total } = store.listOperatorMail(app.db, { kind: query.kind, ...page })
        return pageById(mail, { ...page, total }, toMailView)
      },
      {
        query: MailQuery,
        response: S.PageBody(OperatorMailRecord),
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
        response: S.DataBody(OperatorMailDetail),
        detail: operatorRoute('Get a message for the operator', undefined, { 404: MAIL_NOT_FOUND }),
      },
    )
    .get(
      '/:id/raw',
      async ({ actor, params, request }) => {
        const mail = store.findOperatorMail(app.db, params.id)
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
    .delete('/:id', ({ actor, params }) => store.deleteOperatorMail(app, params.id, toServiceActor(actor)), {
      params,
      detail: operatorRoute('Delete a message for the operator', undefined, { 404: MAIL_NOT_FOUND }),
    })

/** A message with its text and the beginning of its source. Throws 404 for an unknown id. */
async function readOperatorMail(app: App, readText: MailTextReader, id: string): Promise<OperatorMailDetail> {
  const mail = store.findOperatorMail(app.db, id)
  const bytes = store.readBeginning(app, mail.rawRef, MAX_SHOWN_BYTES)
  if (!bytes) app.log.warn({ mail: formatUuid(mail.uuid) }, 'operator mail: raw message no longer stored')
  return {
    ...toMailView(mail),
    text: bytes ? ((await readText(mail))?.slice(0, MAX_SHOWN_BYTES) ?? null) : null,
    source: bytes ? new TextDecoder().decode(bytes) : null,
  }
}
