/** @module A service that delivers nothing itself: a test decides how its emails end, and reads the results. */
import type { Actor, App } from '#features/core/app/app.ts'
import { type EventData, toEventType } from '#features/core/events/record.ts'
import { applyBounce, type BounceResult } from '#features/receiving/bounces/apply.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { type Verdict, writeOutcome } from '#features/sending/delivery/verdict/outcome.ts'
import { beginDelivery } from '#features/sending/queue/attempt-transitions.ts'
import { SANDBOX_LANE } from '#features/sending/queue/lanes.ts'
import { statusName } from '#features/sending/queue/status.ts'
import { parseUuid } from '#platform/ids.ts'
import { hours } from '#platform/units.ts'
import { computeVerpTag, encodeVerp } from '#protocols/address/verp.ts'
import type { Dsn, DsnRecipient } from '#protocols/dsn/fields.ts'
import type { TestAppOptions } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, UNVERIFIED, VERIFIED } from '#test/support/email-api.ts'
import { claimDueTo } from '#test/support/lanes.ts'

export const SENT: Verdict = { kind: 'sent', reply: '250 2.0.0 Queued' }
export const UNCERTAIN: Verdict = { kind: 'uncertain', reason: 'The connection was lost' }
const VERDICTS = { sent: SENT, uncertain: UNCERTAIN } as const

export interface SentEmail {
  readonly emailId: number
  readonly messageId: string
  readonly recipients: readonly { readonly id: number; readonly address: string; readonly verp: string }[]
}

export interface BounceFixture extends EmailApi {
  /** An email whose recipients all ended this way; `queued`: left in the queue. */
  email(
    to: readonly string[],
    ended?: keyof typeof VERDICTS | 'queued',
    more?: { readonly actor?: Actor; readonly sandbox?: boolean },
  ): Promise<SentEmail>
  report(report: Dsn, at?: { recipientId?: number; accountId?: number }): Promise<BounceResult>
  createOtherAccount(): Promise<Actor>
}

export async function startBounceFixture(options: TestAppOptions = {}): Promise<BounceFixture> {
  const service = await createEmailApi(options)
  const { app, actor } = service
  return {
    ...service,
    async createOtherAccount() {
      const other = await service.newAccount()
      await service.addDomain(other, 'other.test')
      return other
    },
    async email(to, ended = 'sent', { actor: sender = actor, sandbox = false } = {}) {
      const domain = sandbox ? UNVERIFIED : sender === actor ? VERIFIED : 'other.test'
      const { response } = await acceptEmail(
        app,
        sender,
        createDraft(
          app,
          { from: `Ada <ada@${domain}>`, to: [...to], subject: 'Hello', text_body: 'Hello.' },
          undefined,
        ),
      )
      if (ended !== 'queued')
        for (const lane of sandbox
          ? [SANDBOX_LANE]
          : new Set(to.map((address) => address.split('@').at(-1)?.toLowerCase() ?? '')))
          await endAttempts(app, lane, VERDICTS[ended])
      const uuid = parseUuid(response.id)
      const rows = app.db
        .query<{ id: number; emailId: number; address: string }, [Uint8Array]>(
          `SELECT recipients.id, email_id AS emailId, address FROM recipients JOIN emails ON emails.id = email_id WHERE uuid = ?
           ORDER BY recipients.id`,
        )
        .all(uuid ?? new Uint8Array())
      return {
        emailId: rows[0]?.emailId ?? 0,
        messageId: response.message_id,
        recipients: rows.map(({ id, address }) => ({
          id,
          address,
          verp: `${encodeVerp({ recipientId: id, tag: computeVerpTag(uuid ?? new Uint8Array()) }, app.keys.subkey('verp'))}@send.${domain}`,
        })),
      }
    },
    report: (report, at = {}) =>
      app.commit.write((tx) => applyBounce(app, tx, report, { ...at, now: app.eventTime() })),
  }
}

const endAttempts = (app: App, lane: string, verdict: Verdict): Promise<void> =>
  app.commit.write((tx) => {
    const now = app.clock.now()
    for (const attempt of claimDueTo(tx, lane, { now, eventTime: now, limit: 100, retryAt: () => now + hours(1) }))
      writeOutcome(app, tx, { ...attempt, startedAt: now }, verdict, undefined)
  })

/** Claims the recipients of a lane, by default with transmission begun; returns a function that ends their attempts. */
export async function claimInFlight(
  { app }: Pick<BounceFixture, 'app'>,
  lane: string,
  { hasBegun = true }: { readonly hasBegun?: boolean } = {},
): Promise<(verdict: Verdict) => Promise<void>> {
  const now = app.clock.now()
  const attempts = await app.commit.write((tx) => {
    const claimed = claimDueTo(tx, lane, { now, eventTime: now, limit: 100, retryAt: () => now + hours(1) })
    for (const { recipientId } of claimed) if (hasBegun) beginDelivery(tx, recipientId, now)
    return claimed
  })
  return (verdict) =>
    app.commit.write((tx) => {
      for (const attempt of attempts)
        writeOutcome(app, tx, { ...attempt, startedAt: hasBegun ? now : undefined }, verdict, undefined)
    })
}

/** A report about one recipient; by default a usual failure without a returned message. */
export const reportOf = (recipient: Partial<DsnRecipient>, more: Partial<Omit<Dsn, 'recipients'>> = {}): Dsn => ({
  recipients: [{ ...FAILED, ...recipient }],
  originalMessageId: null,
  originalReturnPath: null,
  ...more,
})

export const FAILED: DsnRecipient = {
  action: 'failed',
  finalRecipient: null,
  originalRecipient: null,
  status: '5.1.1',
  diagnostic: '550 5.1.1 User unknown',
  remoteMta: 'mx.receiver.test',
}

interface RecipientRow {
  readonly status: number
  readonly startedAt: number | null
  readonly deliveredAt: number | null
  readonly smtpResponse: string | null
  readonly bounceType: string | null
  readonly bounceCategory: string | null
}

/** Stored state of an email: status, recipients, events after `queued`, and its account's suppressed addresses. */
export function stateOf({ app }: BounceFixture, { emailId }: SentEmail) {
  const email = app.db
    .query<{ status: number; deliveredAt: number | null; accountId: number }, [number]>(
      'SELECT status, delivered_at AS deliveredAt, account_id AS accountId FROM emails WHERE id = ?',
    )
    .get(emailId)
  if (!email) throw new Error('there is no such email')
  return {
    status: statusName(email.status),
    deliveredAt: email.deliveredAt,
    recipients: app.db
      .query<RecipientRow, [number]>(
        `SELECT status, delivery_started_at AS startedAt, delivered_at AS deliveredAt, smtp_response AS smtpResponse, bounce_type AS bounceType,
         bounce_category AS bounceCategory FROM recipients WHERE email_id = ? ORDER BY id`,
      )
      .all(emailId)
      .map((row) => ({ ...row, status: statusName(row.status) })),
    events: app.db
      .query<{ type: number; at: number; data: string | null }, [number]>(
        'SELECT type, at, data FROM events WHERE email_id = ? AND type <> 0 ORDER BY seq',
      )
      .all(emailId)
      .map(({ type, at, data }) => ({ type: toEventType(type), at, data: JSON.parse(data ?? '{}') as EventData })),
    suppressed: app.db
      .query<{ address: string }, [number]>('SELECT address FROM suppressions WHERE account_id = ? ORDER BY id')
      .all(email.accountId)
      .map(({ address }) => address),
    deadLetters:
      app.db.query<{ n: number }, [number]>('SELECT count(*) AS n FROM dead_letters WHERE email_id = ?').get(emailId)
        ?.n ?? 0,
  }
}
