/**
 * @module Why the recipients of an email wait, as only the operator knows it: a hold, the fence of restored data, a
 * blocked account, our own DNS servers, no service, or what the scheduler waits for. Each reason is a line of
 * `readWaits` or `findDelay`. Reads only.
 */

import { findSendingBlock } from '#features/core/accounts/pause.ts'
import type { App } from '#features/core/app/app.ts'
import type { StoredEmail, StoredRecipient } from '#features/sending/emails/read.ts'
import type { StoredAttempt } from '#features/sending/queue/attempt-transitions.ts'
import { describeRedirect, isHoldReason } from '#features/sending/queue/queue-rules.ts'
import { formatUuid } from '#platform/ids.ts'
import { seconds } from '#platform/units.ts'
import type { DeliveryScheduler } from '../schedule/scheduler.ts'
import { isSuspension, NOT_DUE_REASON, STALLED_REASON } from '../schedule/waits.ts'
import { isFaultOfRoute, type Wait } from './explain.ts'
import { findProviderHolds, findStop } from './queue-view.ts'

/** How long our DNS servers may take to answer. */
const DNS_TIMEOUT_MS = seconds(3)

const DNS_IS_DOWN: Wait = {
  who: 'operator',
  sentence: 'The DNS servers of this service do not answer, so no mail can be routed.',
  advice: '`tassis doctor` names them; TASSIS_DNS_SERVERS sets others.',
}
const NO_SERVICE: Wait = {
  who: 'operator',
  sentence: 'It waits: no service is running.',
  advice: 'Start it: `systemctl start tassis`, or `tassis serve`.',
}

/**
 * Resolves with a function that returns why a recipient of the email waits.
 * @param context.scheduler undefined when this process delivers no mail
 */
export async function readWaits(
  app: App,
  { email, accountId }: { readonly email: StoredEmail; readonly accountId: number },
  {
    scheduler,
    findNewestAttempt,
  }: {
    readonly scheduler: DeliveryScheduler | undefined
    readonly findNewestAttempt: (recipientId: number) => StoredAttempt | undefined
  },
): Promise<(recipient: StoredRecipient) => Wait | undefined> {
  const { db } = app
  const waiting = email.recipients.filter(({ status }) => status === 'queued' || status === 'scheduled')
  const providerHolds = await findProviderHolds(app, [...new Set(waiting.flatMap(({ lane }) => lane ?? []))])
  const isDnsSuspect = ({ id, nextAt }: StoredRecipient) => {
    const newest = findNewestAttempt(id)
    return newest ? newest.data.bounce_category === 'dns_failure' : nextAt !== null && nextAt <= app.clock.now()
  }
  const isDnsDown = !email.sandbox && waiting.some(isDnsSuspect) && !(await isDnsAnswering(app))
  const block = findSendingBlock(db, accountId)
  return (recipient) => {
    const { lane } = recipient
    if (lane === null || !waiting.includes(recipient)) return undefined
    const stop = findStop(db, lane, email.id, providerHolds.get(lane))
    if (stop) return hold(toSentence(stop.reason.replace(/^restored: /, '')))
    if (block !== undefined) return { ...hold(withStop(block)), advice: adviseOnAccount(formatUuid(email.accountUuid)) }
    if (isDnsDown && isDnsSuspect(recipient)) return DNS_IS_DOWN
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
  return `It ${/^(?:is|waits|makes) /.test(reason) ? reason : `waits: ${reason}`}.`
}

const withStop = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)

const adviseOnAccount = (id: string): string =>
  `\`tassis accounts show ${id}\` says more, \`tassis accounts resume ${id}\` ends a pause.`

const hold = (sentence: string): Wait => ({ who: 'operator', sentence, isHeld: true })

const isDnsAnswering = ({ resolver, clock }: App): Promise<boolean> => {
  const timedOut = Promise.withResolvers<boolean>()
  const timer = clock.after(DNS_TIMEOUT_MS, () => timedOut.resolve(false))
  return Promise.race([resolver.isAnswering(), timedOut.promise]).finally(() => timer.cancel())
}

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
  return { sentence, ...(reason === STALLED_REASON && { who: 'operator' }) }
}
