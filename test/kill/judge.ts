/** @module Checks the promises of the crash rule: compares what senders were told, what arrived and what is stored. */

import type { Sent } from './load.ts'
import type { Transaction } from './sink.ts'
import type { StoredMail } from './stored-mail.ts'

export interface Evidence {
  readonly sent: ReadonlyMap<string, Sent>
  readonly stored: ReadonlyMap<string, StoredMail>
  readonly storedTwice: readonly string[]
  readonly transactions: readonly Transaction[]
  /** Recipients that may be uncertain because of the kills so far: see `KillSnapshot.undecided`. */
  readonly excused: ReadonlySet<string>
  readonly now: number
}

export interface Totals {
  readonly accepted: number
  readonly unansweredButStored: number
  readonly receivedOnce: number
  readonly uncertain: number
  /** Uncertain because the receiver itself cut the connection after the dot. */
  readonly uncertainByCut: number
  readonly deferred: number
  readonly duplicates: number
  readonly lost: number
}

export interface Judgement {
  readonly totals: Totals
  /** Broken promises, one sentence each. */
  readonly violations: readonly string[]
  /** All uncertain recipients. */
  readonly uncertain: readonly string[]
}

export function judgeRound({ sent, stored, storedTwice, transactions, excused, now }: Evidence): Judgement {
  const violations: string[] = storedTwice.map((id) => `${id} is stored twice`)
  const byRecipient = Map.groupBy(transactions, (transaction) => transaction.recipient)
  const receivedTimes = (id: string) => (byRecipient.get(id) ?? []).filter(({ received }) => received).length
  const uncertain: string[] = []
  const count = { accepted: 0, unanswered: 0, once: 0, byCut: 0, deferred: 0, duplicates: 0, lost: 0 }

  for (const { recipient, received, isWhole: whole, testId } of transactions) {
    if (received && !whole) violations.push(`${recipient} was received with missing or wrong content (${testId})`)
    if (received && testId !== recipient) violations.push(`${recipient} was sent the message of ${testId}`)
    if (!sent.has(recipient)) violations.push(`${recipient} was received and never sent`)
  }
  for (const id of stored.keys()) if (!sent.has(id)) violations.push(`${id} is stored and was never sent`)

  for (const { id, outcome: told, isDeferred, status } of sent.values()) {
    const mail = stored.get(id)
    const times = receivedTimes(id)
    if (told === 'accepted') count.accepted++
    if (told === 'unanswered' && mail) count.unanswered++
    if (told === 'refused') violations.push(`${id} was refused with ${status}`)
    if (times > 1) {
      count.duplicates++
      violations.push(`${id} was received ${times} times`)
    }
    if (!mail) {
      if (told === 'accepted') {
        count.lost++
        violations.push(`${id} was accepted and is not stored`)
      }
      if (times > 0) violations.push(`${id} was received and is not stored`)
      continue
    }
    if (isDeferred) {
      count.deferred++
      if (mail.status !== 'queued' || mail.attempts === 0 || mail.nextAt === null || mail.nextAt <= now)
        violations.push(`${id} should wait for a later attempt: ${JSON.stringify(mail)}`)
      continue
    }
    if (mail.status === 'sent') {
      if (times === 1) count.once++
      else if (times === 0) {
        count.lost++
        violations.push(`${id} is sent and was not received`)
      }
      const isAnswered = (byRecipient.get(id) ?? []).some(({ answeredAtMs }) => answeredAtMs !== undefined)
      if (!isAnswered) violations.push(`${id} is sent, but its final reply was never written`)
    } else if (mail.status === 'uncertain') {
      uncertain.push(id)
      const wasCut = (byRecipient.get(id) ?? []).some(({ cut }) => cut)
      if (wasCut) count.byCut++
      else if (!excused.has(id)) violations.push(`${id} is uncertain, which no kill explains`)
    } else violations.push(`${id} is not final: ${JSON.stringify(mail)}`)
  }
  return {
    violations,
    uncertain,
    totals: {
      accepted: count.accepted,
      unansweredButStored: count.unanswered,
      receivedOnce: count.once,
      uncertain: uncertain.length - count.byCut,
      uncertainByCut: count.byCut,
      deferred: count.deferred,
      duplicates: count.duplicates,
      lost: count.lost,
    },
  }
}
