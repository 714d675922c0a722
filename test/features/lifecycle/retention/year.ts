/**
 * @module A service with a year of mail: sends with every outcome, at times set by a test clock. Nothing is delivered
 * automatically.
 */
import { type Verdict, writeOutcome } from '#features/sending/delivery/verdict/outcome.ts'
import { beginDelivery } from '#features/sending/queue/attempt-transitions.ts'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { createEmailApi, type EmailApi } from '#test/support/email-api.ts'
import { claimDueTo } from '#test/support/lanes.ts'
import { readTrackedRecipient } from '#test/support/tracked-recipient.ts'

/** Verdicts of the attempts, in rotation. */
const VERDICTS: readonly Verdict[] = [
  { kind: 'sent', reply: '250 OK' },
  { kind: 'sent', reply: '250 OK' },
  { kind: 'bounced', bounceType: 'hard', category: 'mailbox_full', reply: '552 full', isAddressDead: false },
  {
    kind: 'bounced',
    bounceType: 'hard',
    category: 'invalid_recipient',
    reply: '550 5.1.1 unknown',
    isAddressDead: true,
  },
  { kind: 'failed', reason: 'The message could not be composed' },
  { kind: 'uncertain', reason: 'The connection was lost' },
]

/** Sixteenths of the size of all data, as in docs/retention.md. */
const PARTS = { content: 5, events: 2, inbound: 4, logs: 5 }

/** The value of `TASSIS_DATA_MAX_BYTES` with which a kind may have these bytes. */
export const sizeFor = (kind: keyof typeof PARTS, bytes: number): string => `${Math.floor((bytes * 16) / PARTS[kind])}B`

/** Completes everything due in a lane, rotating through the verdicts. */
export const endAttempts = ({ app }: EmailApi, lane: string, verdicts = VERDICTS): Promise<number> =>
  app.commit.write((tx) => {
    const now = app.clock.now()
    const claimed = claimDueTo(tx, lane, {
      now,
      eventTime: app.eventTime(),
      limit: 10_000,
      retryAt: () => now + hours(1),
    })
    for (const [index, hand] of claimed.entries()) {
      const verdict = verdicts[index % verdicts.length] ?? { kind: 'released' }
      const startedAt = verdict.kind === 'sent' || verdict.kind === 'uncertain' ? now : undefined
      if (startedAt !== undefined) beginDelivery(tx, hand.recipientId, startedAt)
      writeOutcome(app, tx, { ...hand, startedAt }, verdict, undefined)
    }
    return claimed.length
  })

/** Sends emails, some of them opened and clicked, and completes them. Returns the ids of the ended ones. */
export async function sendAndEnd(service: EmailApi, count: number, month: number): Promise<string[]> {
  const ids: string[] = []
  for (let sent = 0; sent < count; sent += 100) {
    const some = Array.from({ length: Math.min(100, count - sent) }, (_, index) =>
      service.accepted({
        to: [`m${month}-${sent + index}@receiver.test`],
        html_body: `<p>Month ${month}, email ${sent + index}. ${'x'.repeat(400)}</p>`,
        idempotency_key: `key-${month}-${sent + index}`,
        ...(index % 10 === 0 && {
          cc: [`copy${month}-${sent + index}@receiver.test`],
          attachments: [
            { filename: 'a.txt', content: btoa(`file ${month} ${sent + index}`), content_type: 'text/plain' },
          ],
        }),
      }),
    )
    ids.push(...(await Promise.all(some)).map(({ id }) => id))
  }
  service.clock.advance(minutes(1))
  await endAttempts(service, 'receiver.test')
  await openSome(service)
  return ids
}

const openSome = ({ app }: EmailApi): Promise<void> =>
  app.commit.write((tx) => {
    const recipients = tx.db
      .query<{ id: number }, []>('SELECT id FROM recipients WHERE delivered_at IS NOT NULL ORDER BY id DESC LIMIT 20')
      .all()
    for (const { id } of recipients) {
      const recipient = readTrackedRecipient(tx.db, id)
      const visit = { recipient, visitor: 'human', ipAddress: '203.0.113.9', userAgent: 'Mail' } as const
      recordEngagement(app, tx, { ...visit, url: undefined })
      recordEngagement(app, tx, { ...visit, url: 'https://shop.test/' })
    }
  })

/** Settings under which every kind loses data within a year. */
export const SHORT = {
  TASSIS_CONTENT_DAYS: '60',
  TASSIS_EVENTS_DAYS: '120',
  TASSIS_LOGS_DAYS: '180',
  TASSIS_INBOUND_DAYS: '90',
} as const

export const createYear = (settings: Readonly<Record<string, string>> = SHORT): Promise<EmailApi> =>
  createEmailApi({ settings })

/** Row counts. */
export const rowsOf = ({ app }: Pick<EmailApi, 'app'>, sql: string): number =>
  app.db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${sql}`).get()?.n ?? 0

export const MONTH_MS = days(30)
