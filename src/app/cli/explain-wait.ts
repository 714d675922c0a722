/**
 * @module Why the recipients of an email wait, for `tassis explain`: what the operator must end first (a hold, the fence
 * of restored data, a blocked account), our own DNS servers, or what the scheduler waits for. Reads only.
 */
import { findSendingBlock } from '#features/core/accounts/pause.ts'
import type { App } from '#features/core/app/app.ts'
import { describeRestored, isMailRestored, readFence } from '#features/core/fence/restored.ts'
import { toFinding } from '#features/sending/delivery/attempt-model.ts'
import { isSuspension, NO_SERVICE_REASON, NOT_DUE_REASON } from '#features/sending/delivery/wait-reasons.ts'
import type { StoredEmail, StoredRecipient } from '#features/sending/emails/read.ts'
import type { StoredAttempt } from '#features/sending/queue/attempts.ts'
import { accountOfLane, domainOfLane } from '#features/sending/queue/lanes.ts'
import { describeHold, describeRedirect, findEmailHold, findHold } from '#features/sending/queue/queue-rules.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { formatUuid } from '#platform/ids.ts'
import { seconds } from '#platform/units.ts'
import { findProviderHolds } from '../operator/queue.ts'
import type { AdminCommandContext } from './admin-command.ts'
import { formatSendingBlock } from './queue-words.ts'

/** What must end before the next attempt; null: nothing but its time or its turn. */
export type WaitsFor = 'hold' | 'fence' | 'account' | 'dns' | 'suspension' | null

export interface Wait {
  readonly waitsFor: WaitsFor
  /** Undefined: it waits for its time only. */
  readonly reason: string | undefined
  /** What the operator must mend, in whole sentences, in place of a reason. */
  readonly blockedBy: string | undefined
}

const NO_WAIT: Wait = { waitsFor: null, reason: undefined, blockedBy: undefined }

const sql = prepareStatements((db) => ({
  lane: db.prepare<{ lane: string | null }, [number]>('SELECT lane FROM recipients WHERE id = ?'),
}))

/** How long our DNS servers may take to answer. */
const DNS_TIMEOUT_MS = seconds(3)

const DNS_IS_DOWN =
  'The DNS servers of this service do not answer, so no mail can be routed. `tassis doctor` names them; TASSIS_DNS_SERVERS sets others.'

/**
 * Resolves with a function that returns why a recipient of the email waits.
 * @param newestAttempts by row id of the recipient
 */
export async function readWaits(
  context: AdminCommandContext,
  { email, accountId }: { readonly email: StoredEmail; readonly accountId: number },
  recipients: readonly StoredRecipient[],
  newestAttempts: (recipientId: number) => StoredAttempt | undefined,
): Promise<(recipient: StoredRecipient) => Wait> {
  const { app } = context.opened
  const waiting = recipients.filter(({ status }) => status === 'queued' || status === 'scheduled')
  const lanes = new Map(
    waiting.flatMap(({ id }) => {
      const lane = sql(app.db).lane.get(id)?.lane
      return lane == null ? [] : [[id, lane] as const]
    }),
  )
  const ofProviders = await findProviderHolds(app, [...new Set(lanes.values())])
  const ofEmail = findEmailHold(app.db, email.id)
  const isDnsSuspect = ({ id, nextAt }: StoredRecipient) => {
    const newest = newestAttempts(id)
    return newest ? toFinding(newest).category === 'dns_failure' : nextAt !== null && nextAt <= app.clock.now()
  }
  const isDnsDown = !email.sandbox && waiting.some(isDnsSuspect) && !(await isDnsAnswering(app))
  const block = waiting.length === 0 ? undefined : findSendingBlock(app.db, accountId)
  return (recipient) => {
    const lane = lanes.get(recipient.id)
    if (lane === undefined || recipient.nextAt === null) return NO_WAIT
    const hold = ofEmail ?? findHold(app.db, lane) ?? ofProviders.get(lane)
    const restored = findRestoredReason(app, email, lane)
    if (restored !== undefined) return { waitsFor: 'fence', reason: restored, blockedBy: undefined }
    if (hold) return { waitsFor: 'hold', reason: describeHold(hold), blockedBy: undefined }
    if (block !== undefined)
      return {
        waitsFor: 'account',
        reason: undefined,
        blockedBy: formatSendingBlock(block, formatUuid(email.accountUuid)),
      }
    if (isDnsDown && isDnsSuspect(recipient)) return { waitsFor: 'dns', reason: undefined, blockedBy: DNS_IS_DOWN }
    const reason = findDelay(context, recipient, lane)
    const redirect = describeRedirect(app.db, lane)
    if (redirect !== undefined && reason === undefined && isUnreachable(newestAttempts(recipient.id)))
      return {
        waitsFor: null,
        reason,
        blockedBy: `The last attempt failed at the host that you chose. ${redirect}.`,
      }
    return {
      waitsFor: reason !== undefined && isSuspension(reason) ? 'suspension' : null,
      reason,
      blockedBy: undefined,
    }
  }
}

const UNREACHABLE: ReadonlySet<string | null> = new Set([
  'connection_failure',
  'tls_failure',
  'dns_failure',
  'relay_denied',
])

const isUnreachable = (attempt: StoredAttempt | undefined): boolean =>
  attempt !== undefined && UNREACHABLE.has(toFinding(attempt).category)

const isDnsAnswering = ({ resolver, clock }: App): Promise<boolean> => {
  const timedOut = Promise.withResolvers<boolean>()
  const timer = clock.after(DNS_TIMEOUT_MS, () => timedOut.resolve(false))
  return Promise.race([resolver.isAnswering(), timedOut.promise]).finally(() => timer.cancel())
}

function findRestoredReason({ db }: App, email: StoredEmail, lane: string): string | undefined {
  const fence = readFence(db)
  const mail = { emailId: email.id, accountId: accountOfLane(lane), domain: domainOfLane(lane) }
  return fence && isMailRestored(fence, mail) ? describeRestored(fence) : undefined
}

/** Why a recipient that is due still waits, or will wait when it is due; undefined if it waits for its time only. */
function findDelay(
  { opened: { app }, delivery }: AdminCommandContext,
  { status, nextAt }: StoredRecipient,
  lane: string,
): string | undefined {
  if (status !== 'queued' || nextAt === null) return undefined
  const isDue = nextAt <= app.clock.now()
  if (!delivery) return isDue ? NO_SERVICE_REASON : undefined
  if (isDue) return delivery.scheduler.describeWait(lane, nextAt)
  const reason = delivery.scheduler.describeDelay(lane, nextAt)
  return reason === NOT_DUE_REASON ? undefined : reason
}
