/** @module Turns the result of an attempt into a verdict and writes it, with all that follows, in one transaction. */
import type { App } from '#features/core/app/app.ts'
import { addDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import {
  type AttemptFacts,
  deferRecipient,
  finishRecipient,
  releaseRecipient,
} from '#features/sending/queue/attempt-transitions.ts'
import { domainOfLane, SIMULATOR_LANE } from '#features/sending/queue/lanes.ts'
import { simulateReader } from '#features/sending/simulator/mailboxes.ts'
import { HARD_BOUNCE } from '#features/setup/suppression-store/check.ts'
import { suppressAfterOutcome } from '#features/setup/suppression-store/suppress.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { randomFraction, type UuidBytes } from '#platform/ids.ts'
import { backoffDelayMs } from '#platform/queue/backoff.ts'
import { hours, type Millis, minutes, seconds } from '#platform/units.ts'
import {
  type AttemptResult,
  type AttemptSession,
  type AttemptTraceData,
  type BounceCategory,
  CAPTURE_HOST,
  toBounceType,
} from '../protocol.ts'
import { holdWithoutContent } from './held-mail.ts'
import { decideReply } from './replies.ts'
import { MAX_REPLY_LENGTH } from './reply-rules.ts'

export interface AttemptState {
  readonly recipientId: number
  readonly emailId: number
  readonly attempt: number
  /** Undefined when no session was opened. */
  readonly lane?: string
  /** Whether a smarthost takes the message. */
  readonly isRelayed?: boolean
  /** When the start of DATA was stored; undefined if it was not. */
  startedAt: Millis | undefined
  /** Undefined until the attempt has ended, and when it never began. */
  readonly trace?: AttemptTraceData | undefined
}

export type Verdict =
  | { readonly kind: 'sent'; readonly reply: string }
  | {
      readonly kind: 'bounced'
      readonly bounceType: 'hard' | 'soft'
      readonly category: BounceCategory
      readonly rule?: string
      readonly alert?: boolean
      readonly reply: string
      /** Whether the address does not exist or accepts no mail; such an address is added to the suppression list. */
      readonly isAddressDead: boolean
    }
  /** `reply`: the reply of the remote server, if there was one. */
  | {
      readonly kind: 'deferred'
      readonly category: BounceCategory
      readonly rule?: string
      readonly reason: string
      readonly reply: string | undefined
      readonly alert?: boolean
      /** Consecutive failures of the site. They count as attempts for all recipients that wait for the site. */
      readonly siteFailures?: number
      /** When its host or provider is tried again, if it is not tried now. */
      readonly resumesAt?: Millis
    }
  | { readonly kind: 'uncertain'; readonly reason: string }
  | { readonly kind: 'failed'; readonly reason: string }
  /** The recipient waits, without counting an attempt, until the content of its email is available again. */
  | { readonly kind: 'content_missing' }
  /** The attempt never began: the recipient returns to the queue without counting an attempt. */
  | { readonly kind: 'released' }

const sql = prepareStatements((db) => ({
  age: db.prepare<{ firstDueAt: Millis; expiresAt: Millis | null }, [number]>(
    'SELECT coalesce(retry_from, scheduled_at, created_at) AS firstDueAt, expires_at AS expiresAt FROM recipients JOIN emails ON emails.id = email_id WHERE recipients.id = ?',
  ),
  recipient: db.prepare<{ accountId: number; accountUuid: UuidBytes; address: string; sandbox: number }, [number]>(
    `SELECT account_id AS accountId, accounts.uuid AS accountUuid, address, sandbox FROM recipients
     JOIN emails ON emails.id = email_id JOIN accounts ON accounts.id = account_id WHERE recipients.id = ?`,
  ),
}))

/** Pure. @param provider of the site: its name in providers.toml; undefined when there is none */
export function toVerdict(result: AttemptResult, provider?: string): Verdict {
  switch (result.kind) {
    case 'accepted':
      return { kind: 'sent', reply: result.reply.text }
    case 'refused': {
      const { rule, category, isDeferred, action, alert } = decideReply(result.reply, result.phase, provider)
      const facts = { category, rule, alert, reply: result.reply.text }
      return isDeferred
        ? { ...facts, kind: 'deferred', reason: facts.reply }
        : { ...facts, kind: 'bounced', bounceType: toBounceType(category), isAddressDead: action === 'suppress' }
    }
    case 'unreachable': {
      const { tlsDemanded, tlsDemand, failure, reply } = result
      const { category, rule, alert } = tlsDemanded
        ? { category: 'tls_failure' as const, rule: 'tls-demanded', alert: false }
        : reply
          ? decideReply(reply, 'session', provider)
          : { category: 'connection_failure' as const, rule: 'connection-failed', alert: false }
      const reason = tlsDemand === undefined ? failure.message : `${tlsDemand}: ${failure.message}`
      return { kind: 'deferred', category, rule, alert, reason, reply: reply?.text }
    }
    case 'lost':
      return {
        kind: 'deferred',
        category: 'connection_failure',
        rule: 'connection-lost',
        reason: `The connection was lost: ${result.failure.message}`,
        reply: undefined,
      }
    case 'uncertain':
      return {
        kind: 'uncertain',
        reason: `The connection was lost after the message began, so the receiver may have it: ${result.failure.message}`,
      }
    case 'broken':
      return { kind: 'failed', reason: result.message }
    case 'content_missing':
      return result
    case 'aborted':
    case 'dropped':
    case 'postponed':
    case 'proxy_failed':
      return { kind: 'released' }
  }
}

/** The fields of an attempt that are stored and emitted, whatever its outcome; `extra` are those of the outcome. */
const createAttemptFacts =
  ({ attempt: number, trace, isRelayed }: AttemptState, session: AttemptSession | undefined) =>
  (reply: string | undefined, extra: AttemptFacts['data'] = {}): AttemptFacts => ({
    attempt: { number, dialogue: trace?.dialogue ?? null },
    smtpResponse: reply?.slice(0, MAX_REPLY_LENGTH),
    sendingIp: session?.localAddress,
    data: {
      smtp_response: reply?.slice(0, MAX_REPLY_LENGTH) ?? null,
      ip_address: session?.localAddress ?? null,
      remote_mta: formatServer(session ?? trace),
      tls: session?.tls ?? null,
      ...(trace?.host !== undefined && { timings: trace.timings }),
      ...((session ?? trace?.host) && isRelayed && { relay: true }),
      ...extra,
    },
  })

const formatServer = (server: Pick<AttemptTraceData, 'host' | 'address'> | undefined): string | null =>
  server?.host === undefined ? null : `${server.host} [${server.address}]`

/** Writes a verdict. Returns when the recipient is due again; undefined when it is final. */
export function writeOutcome(
  app: App,
  tx: Tx,
  attempt: AttemptState,
  verdict: Verdict,
  session: AttemptSession | undefined,
  /** Earliest due time of a released recipient. */
  releaseAt: Millis = app.clock.now(),
): Millis | undefined {
  const now = app.eventTime()
  const at = { recipientId: attempt.recipientId, emailId: attempt.emailId, now }
  const isSimulated = attempt.lane !== undefined && domainOfLane(attempt.lane) === SIMULATOR_LANE
  const facts = createAttemptFacts(attempt, session)
  switch (verdict.kind) {
    case 'sent':
      finishRecipient(tx, at, {
        status: 'sent',
        deliveryStartedAt: attempt.startedAt,
        ...facts(verdict.reply, session?.host === CAPTURE_HOST ? { captured: true } : {}),
      })
      if (isSimulated) simulateReader(app, tx, attempt)
      return undefined
    case 'bounced': {
      const isSuppressed = verdict.isAddressDead && !isSimulated
      finishRecipient(tx, at, {
        status: 'bounced',
        bounceType: verdict.bounceType,
        bounceCategory: verdict.category,
        lastError: verdict.reply,
        ...facts(verdict.reply, {
          diagnostic_code: `smtp; ${verdict.reply}`,
          bounce_type: verdict.bounceType,
          bounce_category: verdict.category,
          ...(verdict.rule !== undefined && { rule: verdict.rule }),
          ...(isSuppressed && { suppressed: true }),
        }),
      })
      if (isSuppressed) suppressRecipient(app, tx, attempt)
      return undefined
    }
    case 'deferred': {
      const rule = verdict.rule === undefined ? {} : { rule: verdict.rule }
      const nextAt = findNextAttempt(app, tx, attempt, verdict)
      if (nextAt === undefined) expireRecipient(tx, at, verdict, facts(verdict.reply, rule))
      else
        deferRecipient(
          tx,
          { ...at, nextAt, retryAt: Math.max(nextAt, verdict.resumesAt ?? 0), reason: verdict.reason },
          { ...facts(verdict.reply, { bounce_category: verdict.category, ...rule }), lastError: verdict.reason },
        )
      return nextAt
    }
    case 'uncertain':
    case 'failed': {
      const { kind: status, reason: lastError } = verdict
      const deliveryStartedAt = attempt.startedAt
      finishRecipient(tx, at, { status, deliveryStartedAt, lastError, ...facts(undefined, { reason: lastError }) })
      addDeadLetter(tx, { ...at, reason: status, lastError, at: now })
      return undefined
    }
    case 'content_missing':
      releaseRecipient(tx, attempt.recipientId, attempt.emailId, releaseAt, now)
      return holdWithoutContent(app, tx, attempt)
    case 'released':
      releaseRecipient(tx, attempt.recipientId, attempt.emailId, releaseAt, now)
      return releaseAt
  }
}

/** When a deferred recipient is due again; undefined when it has expired. */
function findNextAttempt(
  app: App,
  tx: Tx,
  { recipientId, attempt }: AttemptState,
  { siteFailures = 0 }: Extract<Verdict, { kind: 'deferred' }>,
): Millis | undefined {
  const now = app.clock.now()
  const { firstDueAt, expiresAt } = sql(tx.db).age.get(recipientId) ?? { firstDueAt: app.eventTime(), expiresAt: null }
  const hasExpired =
    expiresAt === null
      ? isExpired(firstDueAt, now, Math.max(attempt, siteFailures), app.config.retryExpiryHours)
      : now >= expiresAt
  if (hasExpired) return undefined
  const retryAt = now + computeRetryDelayMs(attempt, randomFraction())
  return Math.min(retryAt, expiresAt ?? retryAt)
}

/** Suppresses the address of a recipient for its account, except of sandbox mail, which says nothing about it. */
export function suppressRecipient(
  app: App,
  tx: Tx,
  { recipientId, emailId }: Pick<AttemptState, 'recipientId' | 'emailId'>,
): void {
  const recipient = sql(tx.db).recipient.get(recipientId)
  if (!recipient || recipient.sandbox === 1) return
  suppressAfterOutcome(app, tx, { ...recipient, id: emailId }, { address: recipient.address, reason: HARD_BOUNCE })
}

/** Ends retries with a dead letter and a soft bounce: soft, because no server rejected the mail permanently. */
function expireRecipient(
  tx: Tx,
  at: { recipientId: number; emailId: number; now: Millis },
  verdict: Extract<Verdict, { kind: 'deferred' }>,
  facts: AttemptFacts,
): void {
  const lastError = `Not delivered in time; the last attempt ended with: ${verdict.reason}`
  finishRecipient(tx, at, {
    ...facts,
    status: 'bounced',
    bounceType: 'soft',
    bounceCategory: 'expired',
    lastError,
    data: { ...facts.data, bounce_type: 'soft', bounce_category: 'expired', reason: lastError },
  })
  addDeadLetter(tx, { ...at, reason: 'expired', lastError, at: at.now })
}

/** After it rejected the connection for the `failures`th time in a row: 30 s, then 1, 2, 4, 8 and 15 minutes. */
export const computeSiteBackoffMs = (failures: number): number =>
  backoffDelayMs(failures, { minMs: seconds(30), maxMs: MAX_SITE_BACKOFF_MS })

/**
 * Delay after attempt 1, 2, …; the last delay repeats. RFC 5321 §4.5.4.1 recommends at least 30 minutes in general, but
 * also variable strategies with shorter delays at first.
 */
const RETRY_DELAYS_MS = [...[1, 5, 15, 30].map(minutes), ...[1, 2, 4, 8].map(hours)]
const LAST_RETRY_DELAY_MS = hours(8)
const JITTER_FRACTION = 0.1

/** Delay in ms after attempt number `attempt` (1 is the first), with up to 10 % jitter. */
export function computeRetryDelayMs(attempt: number, random: number): number {
  const base = RETRY_DELAYS_MS[Math.max(attempt, 1) - 1] ?? LAST_RETRY_DELAY_MS
  return Math.round(base * (1 + JITTER_FRACTION * random))
}

/**
 * The `max_attempts` of emails, in the schedule without jitter: none begins at or after the deadline of `expires_in`, in
 * seconds; without one, the last begins at or after the expiry of the service.
 */
export const createMaxAttempts =
  (expiryHours: number) =>
  (expiresIn?: number): number => {
    let attempts = 0
    for (let at = 0; at < (expiresIn === undefined ? hours(expiryHours) : seconds(expiresIn)); )
      at += computeRetryDelayMs(++attempts, 0)
    return expiresIn === undefined ? attempts + 1 : attempts
  }

/** Whether, with maximum jitter, the next scheduled attempt would come at or after expiry. */
export function isRetryScheduleExhausted(attempts: number, expiryHours: number): boolean {
  let at = 0
  for (let attempt = 1; attempt < attempts; attempt++) at += computeRetryDelayMs(attempt, 1)
  return at + computeRetryDelayMs(attempts, 1) >= hours(expiryHours)
}

/**
 * Whether a deferral at `now` is final: the email is past its expiry, and was attempted as often as the schedule allows
 * in that time. Because both are required, neither a fast clock nor a long downtime ends an email after a few attempts.
 * @param attempts number of attempts of the email, or of consecutive failures of its site if these are more
 */
export const isExpired = (firstDueAt: Millis, now: Millis, attempts: number, expiryHours: number): boolean =>
  now - firstDueAt >= hours(expiryHours) && isRetryScheduleExhausted(attempts, expiryHours)

/** Whether a recipient waits longer than schedule and backoffs allow: its time was stored by a fast clock. */
export const isBeyondRetrySchedule = (nextAt: Millis, now: Millis, attempts: number): boolean =>
  nextAt - now > Math.max(attempts > 0 ? computeRetryDelayMs(attempts, 1) : 0, MAX_SITE_BACKOFF_MS)

export const MAX_SITE_BACKOFF_MS = minutes(15)
