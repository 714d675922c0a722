/**
 * @module /v1/operator/emails/{id}/explanation: what happened to an email of any account, with the attempts, and why its
 * recipients wait, as only the operator knows it: a hold, the fence of restored data, a blocked account, no service, or
 * what the scheduler waits for. Each reason is a line of `readWaits` or `findDelay`.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { findAccountByUuid } from '#features/core/accounts/accounts.ts'
import { findSendingBlock } from '#features/core/accounts/pause.ts'
import type { App } from '#features/core/app/app.ts'
import { authenticated, operatorRoute } from '#features/core/app/http.ts'
import { recordView } from '#features/core/audit-logs/audit.ts'
import { listDeadLettersOfEmail } from '#features/sending/dead-letters/dead-letters.ts'
import { EmailDetail, EmailRecipient, RecipientExplanation } from '#features/sending/emails/model.ts'
import {
  findEmailIdsBetween,
  readEmailEvents,
  readEmailsByIds,
  type StoredEmail,
  type StoredRecipient,
} from '#features/sending/emails/read.ts'
import { toEmailState } from '#features/sending/emails/wire.ts'
import { listAttempts, type StoredAttempt } from '#features/sending/queue/attempt-transitions.ts'
import { describeRedirect, isHoldReason } from '#features/sending/queue/queue-rules.ts'
import { dataBody, isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { DataBody, Nullable, notFoundById, parseUuidParam, TextOrNull, Timestamp } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { DeliveryScheduler, FindScheduler } from '../schedule/scheduler.ts'
import { isSuspension, NOT_DUE_REASON } from '../schedule/waits.ts'
import { createExplanationContext } from './actions.ts'
import { Attempt, attemptWire } from './attempt-routes.ts'
import { explainEmail, isFaultOfRoute, type Wait } from './explain.ts'
import { findProviderHolds, findStop } from './queue-view.ts'

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

const MAX_ATTEMPTS = 1000

export const operatorExplainRoutes = (app: App, scheduler: FindScheduler) =>
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
  const findWait = await readWaits(app, email, account.id, scheduler, findNewestAttempt)
  const { sentence, explanations } = explainEmail(email, readEmailEvents(app, account.id, email.id), {
    ...createExplanationContext(app, account.id, email),
    findWait,
  })
  const findDialogue = (recipientId: number) => scheduler?.recentDialogues.find(recipientId)
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
        attempts: (attemptsOf.get(id) ?? []).map((attempt) => attemptWire(attempt, status, findDialogue)),
      }
    }),
  }
}

const NO_SERVICE: Wait = {
  who: 'operator',
  sentence: 'It waits: no service is running.',
  advice: 'Start it: `systemctl start tassis`, or `tassis serve`.',
}

/** Resolves with a function that returns why a recipient of the email waits. */
async function readWaits(
  app: App,
  email: StoredEmail,
  accountId: number,
  scheduler: DeliveryScheduler | undefined,
  findNewestAttempt: (recipientId: number) => StoredAttempt | undefined,
): Promise<(recipient: StoredRecipient) => Wait | undefined> {
  const { db } = app
  const waiting = email.recipients.filter(({ status }) => status === 'queued' || status === 'scheduled')
  const providerHolds = await findProviderHolds(app, [...new Set(waiting.flatMap(({ lane }) => lane ?? []))])
  const block = findSendingBlock(db, accountId)
  return (recipient) => {
    const { lane } = recipient
    if (lane === null || !waiting.includes(recipient)) return undefined
    const stop = findStop(db, lane, email.id, providerHolds.get(lane))
    if (stop) return hold(toSentence(stop.reason.replace(/^restored: /, '')))
    if (block !== undefined) return { ...hold(block), advice: adviseOnAccount(formatUuid(email.accountUuid)) }
    const delay = findDelay(app, scheduler, recipient, lane)
    const redirect = describeRedirect(db, lane)
    return delay || redirect === undefined || !isFaultOfRoute(findNewestAttempt(recipient.id)?.data ?? {})
      ? delay
      : { who: 'operator', sentence: `The last attempt failed at the host that you chose. ${redirect}.` }
  }
}

/** Most reasons are predicates, whose subject is the lane. */
function toSentence(reason: string): string {
  if (isHoldReason(reason)) return `It is ${reason}.`
  return `It ${/^(?:is|waits) /.test(reason) ? reason : `waits: ${reason}`}.`
}

const adviseOnAccount = (id: string): string =>
  `\`tassis accounts show ${id}\` says more, \`tassis accounts resume ${id}\` ends a pause.`

const hold = (sentence: string): Wait => ({ who: 'operator', sentence, isHeld: true })

/** Why a recipient that is due still waits, or will wait when it is due; undefined if it waits for its time only. */
function findDelay(
  app: App,
  scheduler: DeliveryScheduler | undefined,
  { status, nextAt }: StoredRecipient,
  lane: string,
): Wait | undefined {
  if (!scheduler) return NO_SERVICE
  if (status !== 'queued' || nextAt === null) return undefined
  const isDue = nextAt <= app.clock.now()
  const reason = isDue ? scheduler.describeWait(lane, nextAt) : scheduler.describeDelay(lane, nextAt)
  if (reason === NOT_DUE_REASON) return undefined
  const sentence = toSentence(reason)
  if (isHoldReason(reason)) return hold(sentence)
  if (isSuspension(reason))
    return { who: 'operator', sentence, advice: '`tassis providers` shows what to do about it.' }
  return { sentence }
}
