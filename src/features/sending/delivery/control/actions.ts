/**
 * @module What can be done about an email, what stops mail to its recipients and until when they are tried: the facts
 * of an explanation that are not in the email. Also puts deferred recipients back into the queue for their account.
 */
import type { Database } from 'bun:sqlite'
import { getSendingAccount, requireSendingAllowed } from '#features/core/accounts/accounts.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { listDeadLettersOfEmail } from '#features/sending/dead-letters/dead-letters.ts'
import type { EmailAction, RecipientExplanation } from '#features/sending/emails/model.ts'
import { getEmail, type StoredEmail } from '#features/sending/emails/read.ts'
import { findOrigin, isRepeatable } from '#features/sending/emails/resend.ts'
import { toRecipientState } from '#features/sending/emails/wire.ts'
import { listAttempts } from '#features/sending/queue/attempt-transitions.ts'
import { makeDue } from '#features/sending/queue/queue.ts'
import { findEmailHold, findHold } from '#features/sending/queue/queue-rules.ts'
import { SUPPRESSION_SCOPES, suppressionOf } from '#features/setup/suppression-store/check.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { conflict, tooManyRequests } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
import { hours, type Millis, seconds } from '#platform/units.ts'
import type { ExplanationContext } from './explain.ts'

const sql = prepareStatements((db) => ({
  email: db.prepare<{ uuid: UuidBytes }, [number, number]>('SELECT uuid FROM emails WHERE id = ? AND account_id = ?'),
  stream: db.prepare<{ slug: string }, [number]>('SELECT slug FROM streams WHERE id = ?'),
  list: db.prepare<{ name: string }, [number]>('SELECT name FROM contact_lists WHERE id = ?'),
}))

/** @param accountId of the email */
export function createExplanationContext(
  { config, db }: Pick<App, 'config' | 'db'>,
  accountId: number,
  email: StoredEmail,
): Pick<ExplanationContext, 'findSuppression' | 'findExpiry'> {
  const origin = findOrigin(db, email.id)
  const { transactional, scheduledAt, createdAt } = email
  return {
    findExpiry: ({ expiresAt, retryFrom }) =>
      expiresAt ?? (retryFrom ?? scheduledAt ?? createdAt) + hours(config.retryExpiryHours),
    findSuppression: ({ address }) => {
      const { streamId = 0, listId } = origin ?? {}
      const found = suppressionOf(db, { accountId, address, transactional, streamId, listId: listId ?? undefined })
      return found ? suppressionWire(db, accountId, found) : null
    },
  }
}

function suppressionWire(
  db: Database,
  accountId: number,
  { reason, covers, streamId, listId, sourceEmailId, createdAt }: NonNullable<ReturnType<typeof suppressionOf>>,
): RecipientExplanation['suppression'] {
  const source = sourceEmailId === null ? undefined : sql(db).email.get(sourceEmailId, accountId)
  return {
    reason,
    stops: SUPPRESSION_SCOPES[covers] ?? 'all',
    stream: sql(db).stream.get(streamId)?.slug ?? null,
    list: sql(db).list.get(listId)?.name ?? null,
    created_at: isoTime(createdAt),
    source_email_id: source ? formatUuid(source.uuid) : null,
  }
}

/** What can be done about an email now; `explanations` are those of its recipients, in their order. */
export function listActions(
  app: App,
  email: StoredEmail,
  explanations: readonly RecipientExplanation[],
): EmailAction[] {
  const path = `/v1/emails/${formatUuid(email.uuid)}`
  const origin = findOrigin(app.db, email.id)
  const suppressed = explanations.filter(({ suppression }) => suppression !== null)
  const can = (isPossible: boolean, ...actions: readonly EmailAction[]) => (isPossible ? actions : [])
  const forEmail = { method: 'POST', recipient: null }
  return [
    ...can(findRetryable(app.db, email, app.clock.now()).length > 0, {
      ...forEmail,
      name: 'retry',
      path: `${path}/retry`,
    }),
    ...can(email.status === 'draft', { ...forEmail, name: 'release', path: `${path}/release` }),
    ...can(email.status === 'scheduled' || email.status === 'draft', {
      ...forEmail,
      name: 'cancel',
      path: `${path}/cancel`,
    }),
    ...can(email.status === 'scheduled', { ...forEmail, name: 'reschedule', method: 'PATCH', path }),
    ...listDeadLettersOfEmail(app.db, email.id).map(
      ({ id, to }): EmailAction => ({
        name: 'retry_dead_letter',
        method: 'POST',
        path: `/v1/dead-letters/${id}/retry`,
        recipient: to,
      }),
    ),
    ...suppressed.map(
      ({ address }): EmailAction => ({
        name: 'remove_suppression',
        method: 'DELETE',
        path: `/v1/suppressions/${encodeURIComponent(address)}`,
        recipient: address,
      }),
    ),
    ...can(origin !== undefined && suppressed.length < explanations.length && isRepeatable(app, email, origin), {
      ...forEmail,
      name: 'resend',
      path: `${path}/resend`,
    }),
  ]
}

/** The recipients that wait for the time of another attempt, and are not held. */
function findRetryable(db: Database, email: StoredEmail, now: Millis) {
  if (findEmailHold(db, email.id)) return []
  return email.recipients.flatMap((recipient) => {
    const { id, address, lane, nextAt } = recipient
    if (toRecipientState(recipient) !== 'deferred' || lane === null || nextAt === null) return []
    return nextAt > now && !findHold(db, lane) ? [{ id, address, lane, nextAt }] : []
  })
}

const MIN_RETRY_INTERVAL_MS = seconds(10)

/**
 * Makes the deferred recipients of an email due now; resolves with its row id. The backoff of a server that does not
 * answer stays, because it protects the server and the mail of others. Throws 404, 403 while the account is paused, 409
 * if nothing waits for its time, and 429 within 10 seconds of the last attempt.
 * @param admit throws when the account sends too fast
 */
export const retryEmail = (app: App, actor: Actor, id: string, admit: () => void): Promise<number> =>
  app.commit.write((tx) => {
    requireSendingAllowed(getSendingAccount(app.config, tx.db, actor.accountId))
    const email = getEmail(tx.db, actor.accountId, id)
    const now = app.clock.now()
    const waiting = findRetryable(tx.db, email, now)
    if (waiting.length === 0)
      throw conflict(
        'email_not_deferred',
        `No recipient of the email waits for the time of another attempt; the email is ${email.status}.`,
      )
    const [last] = listAttempts(tx.db, email.id, { limit: 1, offset: 0 }).attempts
    const waitMs = (last?.at ?? 0) + MIN_RETRY_INTERVAL_MS - now
    if (waitMs > 0)
      throw tooManyRequests('retried_recently', 'The last attempt ended less than 10 seconds ago.', waitMs / 1000)
    admit()
    makeDue(tx, waiting, now)
    auditChange(app, tx, actor, 'email.retried', email.uuid, { recipients: waiting.map(({ address }) => address) })
    const lanes = new Set(waiting.map(({ lane }) => lane))
    tx.afterCommit(() => {
      for (const lane of lanes) app.mailDue.emit({ lane, at: now })
    })
    return email.id
  })
