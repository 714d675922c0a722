/** @module Delivered emails, reports about them, and the state that the reports leave. */
import { applyComplaint, type ComplaintResult } from '#features/receiving/complaints/apply.ts'
import type { ReportOrigin } from '#features/receiving/complaints/match.ts'
import { finishRecipient } from '#features/sending/queue/attempt-transitions.ts'
import { claimDue } from '#features/sending/queue/queue.ts'
import { createUnsubscribeHeaders } from '#features/sending/unsubscribe/headers.ts'
import { parseUuid } from '#platform/ids.ts'
import { computeVerpTag, encodeVerp } from '#protocols/address/verp.ts'
import { type FeedbackReport, parseFeedbackReport } from '#protocols/arf/parse.ts'
import { parseMessage } from '#protocols/mime/parse.ts'
import { readShape, type ShapeValues } from '#test/protocols/arf/shapes.ts'
import type { TestAppOptions } from '#test/support/app.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'

export interface DeliveredEmail {
  readonly id: string
  readonly messageId: string
  readonly emailId: number
  /** In the order of to, cc, bcc. */
  readonly recipients: readonly { readonly id: number; readonly address: string }[]
}

/** Values in a recipient's copy that reports repeat. */
export type CopyValues = Omit<ShapeValues, 'other_recipient' | 'to'>

export interface Complaints<Service extends EmailApi> {
  readonly service: Service
  /** Accepts an email without delivering it. */
  accepted(request?: Record<string, unknown>): Promise<DeliveredEmail>
  /** Accepts an email and marks every recipient as sent. */
  delivered(request?: Record<string, unknown>): Promise<DeliveredEmail>
  /** Ends all due recipients. */
  deliver(status?: 'sent' | 'bounced' | 'failed' | 'uncertain'): Promise<void>
  /** Values of the copy of a recipient. */
  copy(email: DeliveredEmail, index?: number): CopyValues
  /** The report of a shape about the copy of a recipient. */
  report(name: string, email: DeliveredEmail, index?: number): Promise<FeedbackReport>
  apply(report: FeedbackReport, at?: Partial<ReportOrigin>): Promise<ComplaintResult>
  /** Events of complaints, oldest first. */
  events(): { emailId: number; recipientId: number | null; data: unknown }[]
  suppressions(): { address: string; covers: number; reason: string; sourceEmailId: number }[]
  rows(): { emailId: number; recipientId: number | null; type: string; reporter: string | null; rawRef: number }[]
}

export const createComplaintApi = (options: TestAppOptions = {}): Promise<EmailApi> =>
  createEmailApi({ ...options, settings: { TASSIS_PUBLIC_URL: 'https://mail.tassis.test', ...options.settings } })

export async function createComplaints(options: TestAppOptions = {}): Promise<Complaints<EmailApi> & AsyncDisposable> {
  const service = await createComplaintApi(options)
  return { ...addComplaints(service), [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() }
}

export function addComplaints<Service extends EmailApi>(service: Service): Complaints<Service> {
  const { app } = service
  let rawRef = 0
  const accepted: Complaints<Service>['accepted'] = async (request = {}) => {
    const { id, message_id } = await service.accepted(request)
    const rows = app.db
      .query<{ emailId: number; id: number; address: string }, [Uint8Array]>(
        'SELECT emails.id AS emailId, recipients.id, address FROM emails JOIN recipients ON email_id = emails.id WHERE uuid = ? ORDER BY recipients.id',
      )
      .all(parseUuid(id) ?? new Uint8Array())
    return {
      id,
      messageId: String(message_id),
      emailId: rows[0]?.emailId ?? 0,
      recipients: rows.map((row) => ({ id: row.id, address: row.address })),
    }
  }
  const deliver: Complaints<Service>['deliver'] = (status = 'sent') =>
    app.commit.write((tx) => {
      const now = app.eventTime()
      const lanes = app.db
        .query<{ lane: string }, []>('SELECT DISTINCT lane FROM recipients WHERE lane IS NOT NULL')
        .all()
      for (const { lane } of lanes) {
        const due = { now: app.clock.now(), eventTime: now, limit: 1000, retryAt: () => now }
        for (const { recipientId, emailId } of claimDue(tx, lane, due))
          finishRecipient(tx, { recipientId, emailId, now }, { status, deliveryStartedAt: now, smtpResponse: '250 OK' })
      }
    })
  const copy: Complaints<Service>['copy'] = (email, index = 0) => {
    const recipient = email.recipients[index]
    if (!recipient) throw new Error(`the email has no recipient ${index}`)
    const emailUuid = parseUuid(email.id) ?? new Uint8Array()
    const mail = {
      emailId: email.emailId,
      emailUuid,
      recipientId: recipient.id,
      address: recipient.address,
      from: 'ada@sender.test',
    }
    const [field] = createUnsubscribeHeaders(app, { ...mail, returnPathDomain: 'send.sender.test' })
    const [, unsubscribe = '', address = ''] = /<(https:[^>]+)>, <mailto:([^?]+)/.exec(field?.[1] ?? '') ?? []
    return {
      return_path: `${encodeVerp({ recipientId: recipient.id, tag: computeVerpTag(emailUuid) }, app.keys.subkey('verp'))}@send.sender.test`,
      recipient: recipient.address,
      message_id: email.messageId,
      unsubscribe,
      unsubscribe_address: address,
    }
  }
  return {
    service,
    accepted,
    deliver,
    copy,
    async delivered(request) {
      const email = await accepted(request)
      await deliver()
      return email
    },
    async report(name, email, index = 0) {
      const others = email.recipients.filter((_, i) => i !== index)
      const raw = readShape(name, {
        ...copy(email, index),
        other_recipient: others[0]?.address ?? 'nobody@provider.test',
        to: email.recipients[0]?.address ?? '',
      })
      const report = parseFeedbackReport(await parseMessage(raw, { mailFrom: '' }))
      if (!report) throw new Error(`${name} is no report`)
      return report
    },
    apply: (report, at = {}) =>
      app.commit.write((tx) => applyComplaint(app, tx, report, { rawRef: ++rawRef, now: app.eventTime(), ...at })),
    events: () =>
      app.db
        .query<{ emailId: number; recipientId: number | null; data: string }, []>(
          'SELECT email_id AS emailId, recipient_id AS recipientId, data FROM events WHERE type = 11 ORDER BY seq',
        )
        .all()
        .map((row) => ({ ...row, data: JSON.parse(row.data) })),
    suppressions: () =>
      app.db
        .query<{ address: string; covers: number; reason: string; sourceEmailId: number }, []>(
          'SELECT address, covers, reason, source_email_id AS sourceEmailId FROM suppressions ORDER BY id',
        )
        .all(),
    rows: () =>
      app.db
        .query<
          { emailId: number; recipientId: number | null; type: string; reporter: string | null; rawRef: number },
          []
        >(
          'SELECT email_id AS emailId, recipient_id AS recipientId, feedback_type AS type, reporter, raw_ref AS rawRef FROM complaints ORDER BY id',
        )
        .all(),
  }
}
