/** @module /v1/operator: DMARC and TLS reports, mail to postmaster. Paths, schemas and one call each. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { authenticated } from '#features/core/app/http.ts'
import { listReportPage } from '#features/receiving/domain-reports/store.ts'
import { retryOperatorMail } from '#features/receiving/inbound/process/retry.ts'
import { deleteOperatorMail, listOperatorMail } from '#features/receiving/postmaster/store.ts'
import { dataBody, idKey, pageBody } from '#platform/http/envelope.ts'
import { DataBody, PageBody, parsePage } from '#platform/http/schemas.ts'
import { KiB } from '#platform/units.ts'
import { type OperatorContext, operatorRoute } from './context.ts'
import { parseDomainName, readReport, toReportView } from './domain-reports.ts'
import {
  DomainReport,
  DomainReportDetail,
  MailQuery,
  OperatorMailDetail,
  OperatorMailRecord,
  ReportsQuery,
} from './model.ts'
import { readOperatorMail, toMailView } from './operator-mail.ts'
import { toServiceActor } from './view-log.ts'

const reportParams = Type.Object({ id: Type.String({ description: 'Id of the report.' }) })
const mailParams = Type.Object({ id: Type.String({ description: 'Id of the message.' }) })
const MAX_CONTENT_BYTES = 512 * KiB
const MAIL_NOT_FOUND = ['operator_mail_not_found', 'No message has this id.'] as const

export const operatorMailRoutes = ({ opened: { app, parser }, recordView }: OperatorContext) =>
  new Elysia({ prefix: '/v1/operator' })
    .use(authenticated)
    .get(
      '/reports',
      async ({ actor, query }) => {
        await recordView(actor, { name: 'domain_reports' })
        const page = parsePage(query)
        const domain = query.domain === undefined ? undefined : parseDomainName(query.domain.trim())
        const { reports, total, lastKey } = listReportPage(app.db, domain, page)
        return pageBody(reports.map(toReportView), { ...page, total }, lastKey)
      },
      {
        query: ReportsQuery,
        response: PageBody(DomainReport),
        detail: operatorRoute(
          'List DMARC and TLS reports',
          'What other hosts report about domains of this service; newest first.',
        ),
      },
    )
    .get(
      '/reports/:id',
      async ({ actor, params }) => {
        const { content, ...view } = readReport(app, params.id)
        await recordView(actor, { name: 'domain_report', id: view.id })
        return dataBody({
          ...view,
          content: new TextDecoder().decode(content.subarray(0, MAX_CONTENT_BYTES)),
          is_truncated: content.length > MAX_CONTENT_BYTES,
        })
      },
      {
        params: reportParams,
        response: DataBody(DomainReportDetail),
        detail: operatorRoute('Get a DMARC or TLS report', undefined, {
          404: ['report_not_found', 'No report has this id, or it is no longer stored.'],
        }),
      },
    )
    .get(
      '/mail',
      async ({ actor, query }) => {
        await recordView(actor, { name: 'operator_mails' })
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
      '/mail/:id',
      async ({ actor, params }) => {
        const found = await readOperatorMail(app, parser, params.id)
        await recordView(actor, { name: 'operator_mail', id: found.id })
        return dataBody(found)
      },
      {
        params: mailParams,
        response: DataBody(OperatorMailDetail),
        detail: operatorRoute('Get a message for the operator', undefined, { 404: MAIL_NOT_FOUND }),
      },
    )
    .post(
      '/mail/:id/retry',
      async ({ actor, params, set }) => {
        await retryOperatorMail(app, params.id, toServiceActor(actor))
        set.status = 204
      },
      {
        params: mailParams,
        detail: operatorRoute(
          'Process a message for the operator again',
          'A bounce or complaint that could not be read takes effect; other mail returns to the list.',
          {
            404: MAIL_NOT_FOUND,
            409: ['no_destination', 'None of its recipients belongs to this host, or a mailbox is full.'],
          },
        ),
      },
    )
    .delete(
      '/mail/:id',
      async ({ actor, params, set }) => {
        await deleteOperatorMail(app, params.id, toServiceActor(actor))
        set.status = 204
      },
      {
        params: mailParams,
        detail: operatorRoute('Delete a message for the operator', undefined, { 404: MAIL_NOT_FOUND }),
      },
    )
