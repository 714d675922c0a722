/**
 * @module /v1/operator/emails/{id}/explanation: what happened to an email of any account, as only operators see it, with
 * the attempts at each recipient.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findAccountByUuid } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/view-log.ts'
import { listDeadLettersOfEmail } from '#features/sending/dead-letters/read.ts'
import { EmailDetail, EmailRecipient, RecipientExplanation } from '#features/sending/emails/model.ts'
import { findEmailIdsBetween, readEmailEvents, readEmailsByIds } from '#features/sending/emails/read.ts'
import { toEmailState } from '#features/sending/emails/wire.ts'
import { listAttempts } from '#features/sending/queue/attempt-transitions.ts'
import { dataBody, isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { DataBody, Nullable, notFoundById, parseUuidParam, TextOrNull, Timestamp } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { DeliveryScheduler } from '../schedule/scheduler.ts'
import { Attempt, attemptWire } from './attempt-routes.ts'
import { explainEmail } from './explain.ts'
import { readWaits } from './explain-wait.ts'

const ExplainedRecipient = Type.Composite([
  RecipientExplanation,
  Type.Pick(EmailRecipient, ['kind']),
  Type.Object({
    attempt_count: EmailRecipient.properties.attempts,
    expires_at: Nullable(Timestamp(), { description: 'When it expires; null: after the default time.' }),
    dead_letter_id: TextOrNull('Id of its dead letter; null: it has none.'),
    attempts: Type.Array(Attempt, { description: 'Newest first.' }),
  }),
])

const ExplainedEmail = Type.Composite([
  Type.Pick(EmailDetail, ['id', 'account_id', 'from_address', 'subject', 'created_at', 'state', 'sentence']),
  Type.Object({
    account: Type.String({ description: 'Name of its account.' }),
    recipients: Type.Array(ExplainedRecipient, {
      description: 'What happened to each recipient, and what comes next.',
    }),
  }),
])

/** Attempts read per email. */
const MAX_ATTEMPTS = 1000

/** @param context.scheduler of this process, once it delivers */
export const operatorExplainRoutes = (
  app: App,
  { scheduler }: { readonly scheduler: () => DeliveryScheduler | undefined },
) =>
  new Elysia({ prefix: '/v1/operator/emails' }).use(authenticated).get(
    '/:id/explanation',
    async ({ actor, params }) => {
      const found = await explain(app, params.id, scheduler())
      await recordView(app, actor, { name: 'email', id: found.id })
      return dataBody(found)
    },
    {
      params: Type.Object({ id: Type.String({ description: 'Id of the email.' }) }),
      response: DataBody(ExplainedEmail),
      detail: operatorRoute(
        'Explain an email',
        'Of any account: why each recipient got it or did not, what it waits for, who must act, and the attempts.',
        { 404: ['email_not_found', 'No email has this id.'] },
      ),
    },
  )

async function explain(
  app: App,
  id: string,
  scheduler: DeliveryScheduler | undefined,
): Promise<Static<typeof ExplainedEmail>> {
  const uuid = parseUuidParam(id, 'email_not_found', 'email')
  const [email] = readEmailsByIds(app.db, findEmailIdsBetween(app.db, uuid, uuid, 1))
  const account = email && findAccountByUuid(app.config, app.db, email.accountUuid)
  if (!email || !account) throw notFoundById('email_not_found', 'email')
  const { attempts } = listAttempts(app.db, email.id, { limit: MAX_ATTEMPTS, offset: 0 })
  const attemptsOf = Map.groupBy(attempts, ({ recipientId }) => recipientId)
  const findNewestAttempt = (recipientId: number) => attemptsOf.get(recipientId)?.[0]
  const findWait = await readWaits(app, { email, accountId: account.id }, { scheduler, findNewestAttempt })
  const { sentence, explanations } = explainEmail(email, readEmailEvents(app, account.id, email.id), findWait)
  const letters = new Map(listDeadLettersOfEmail(app.db, email.id).map((letter) => [letter.recipientId, letter.id]))
  return {
    id: formatUuid(email.uuid),
    account_id: formatUuid(email.accountUuid),
    account: account.name,
    from_address: email.from,
    subject: email.subject,
    created_at: isoTime(email.createdAt),
    state: toEmailState(email),
    sentence,
    recipients: explanations.flatMap((explanation, index) => {
      const recipient = email.recipients[index]
      if (!recipient) return []
      const { id, kind, status, expiresAt } = recipient
      return {
        ...explanation,
        kind,
        attempt_count: recipient.attempts,
        expires_at: isoTimeOrNull(expiresAt),
        dead_letter_id: letters.get(id)?.toString() ?? null,
        attempts: (attemptsOf.get(id) ?? []).map((attempt) =>
          attemptWire(attempt, {
            status,
            dialogue: attempt.type === 'delivered' ? scheduler?.recentDialogues.find(id) : undefined,
          }),
        ),
      }
    }),
  }
}
