/** @module The state of a recipient and of an email: the status, more precisely. Pure. */
import { isRestoredReason } from '#features/core/fence/restored.ts'
import { findHoldReason } from '#features/sending/queue/account-transitions.ts'
import { isOpen } from '#features/sending/queue/status.ts'
import type { State } from './model.ts'
import type { StoredEmail, StoredRecipient } from './read.ts'

type StateFacts = Pick<StoredRecipient, 'status' | 'attempts' | 'lastError' | 'isCaptured'>

/** Why it waits until somebody ends that: for its account, its content or as restored; undefined if it is not held. */
export function findHold({ status, lastError }: Pick<StateFacts, 'status' | 'lastError'>): string | undefined {
  if (status !== 'queued' || lastError === null) return undefined
  return isRestoredReason(lastError) ? lastError.slice(lastError.indexOf(' ') + 1) : findHoldReason(lastError)
}

export function toRecipientState(recipient: StateFacts): State {
  const { status, attempts, isCaptured } = recipient
  if (status === 'sent' && isCaptured) return 'captured'
  if (status !== 'queued') return status
  if (findHold(recipient) !== undefined) return 'held'
  return attempts > 0 ? 'deferred' : 'queued'
}

/** Of several recipients, one that is held or deferred decides. */
export function toEmailState({ status, recipients }: Pick<StoredEmail, 'status' | 'recipients'>): State {
  const states = recipients.map(toRecipientState)
  if (isOpen(status)) return states.find((state) => state === 'held' || state === 'deferred') ?? status
  return status === 'sent' && states.includes('captured') ? 'captured' : status
}
