/** @module What goes when, kind by kind: each walk says in which order its rows are met and when one of them may go. */
import type { App } from '#features/core/app/app.ts'
import { raiseHorizon } from '#features/core/events/horizon.ts'
import {
  deleteOperation,
  isExpired,
  type OldOperation,
  oldOperation,
  operationsAfter,
} from '#features/core/operations/retire.ts'
import {
  messagesAfter,
  type OldMessage,
  oldMessage,
  retireMessage,
} from '#features/receiving/agent-mailboxes/removal.ts'
import { forgetComplaints, lastComplaintAt } from '#features/receiving/complaints/forget.ts'
import { removeInbound } from '#features/receiving/inbound/inbound-emails.ts'
import { inboundAfter, type OldInbound, oldInbound } from '#features/receiving/inbound/removal.ts'
import {
  broadcastsAfter,
  deleteBroadcast,
  dropBroadcastContent,
  hasBroadcast,
  isBroadcastOverSince,
  type OldBroadcast,
  oldBroadcast,
} from '#features/sending/broadcasts/retire.ts'
import { resolveDeadLetter } from '#features/sending/dead-letters/resolve.ts'
import { forgetOperation } from '#features/sending/newsletters/forget-operation.ts'
import {
  deleteEmail,
  dropEmailContent,
  emailsAfter,
  hasEmails,
  hasOpenEmails,
  isOverSince,
  type OldEmail,
  oldEmail,
  unchangedSince,
} from '#features/sending/queue/retire.ts'
import { forgetEngagement } from '#features/sending/tracking/forget.ts'
import type { Tx } from '#platform/db/commit.ts'
import type { Walk } from './walk.ts'

/** Bodies and attachments of emails that are over. */
export const contentWalk: Walk<OldEmail> = {
  name: 'content',
  after: emailsAfter,
  byId: oldEmail,
  retire(app, tx, email, before) {
    if (!isOverSince(email, before)) return false
    dropEmailContent(app, tx, email)
    return true
  },
}

/** Sources of broadcasts whose emails are all over. */
export const broadcastContentWalk: Walk<OldBroadcast> = {
  name: 'broadcast content',
  after: broadcastsAfter,
  byId: oldBroadcast,
  retire(app, tx, broadcast, before) {
    if (!isBroadcastOverSince(broadcast, before)) return false
    if (broadcast.operationId !== null && hasOpenEmails(tx.db, broadcast.operationId)) return false
    dropBroadcastContent(app, tx, broadcast)
    return true
  },
}

/** Emails that are over, with all that hangs on them. */
export const emailWalk: Walk<OldEmail> = {
  name: 'emails',
  after: emailsAfter,
  byId: oldEmail,
  retire(app, tx, email, before) {
    const recipientIds = unchangedSince(tx, email, before)
    if (!recipientIds || (lastComplaintAt(tx, email.id) ?? 0) >= before) return false
    raiseHorizon(tx, 'logs', before)
    removeEmail(app, tx, email, recipientIds)
    return true
  },
}

function removeEmail(app: App, tx: Tx, email: OldEmail, recipientIds: readonly number[]): void {
  forgetEngagement(tx, email.id, recipientIds)
  forgetComplaints(app, tx, email.id)
  for (const id of recipientIds) resolveDeadLetter(tx, id)
  deleteEmail(app, tx, email)
}

/** Broadcasts without emails any more. */
export const broadcastWalk: Walk<OldBroadcast> = {
  name: 'broadcasts',
  after: broadcastsAfter,
  byId: oldBroadcast,
  retire(app, tx, broadcast, before) {
    if (!isBroadcastOverSince(broadcast, before)) return false
    if (broadcast.operationId !== null && hasEmails(tx.db, broadcast.operationId)) return false
    raiseHorizon(tx, 'logs', before)
    deleteBroadcast(app, tx, broadcast)
    return true
  },
}

/** Operations that nothing names any more. */
export const operationWalk: Walk<OldOperation> = {
  name: 'operations',
  after: operationsAfter,
  byId: oldOperation,
  retire(app, tx, operation) {
    if (!isExpired(operation, app.provenNow())) return false
    if (hasEmails(tx.db, operation.id) || hasBroadcast(tx.db, operation.id)) return false
    if (!deleteOperation(tx, operation.id)) return false
    forgetOperation(tx, operation.id)
    return true
  },
}

/** Inbound emails. */
export const inboundWalk: Walk<OldInbound> = {
  name: 'inbound',
  after: inboundAfter,
  byId: oldInbound,
  retire(app, tx, email) {
    removeInbound(app, tx, email)
    return true
  },
}

/** Messages of agent mailboxes, received and sent. */
export const mailboxWalk: Walk<OldMessage> = {
  name: 'mailboxes',
  after: messagesAfter,
  byId: oldMessage,
  retire(app, tx, message) {
    retireMessage(app, tx, message)
    return true
  },
  isKept: ({ emailId, readAt }) => emailId === null && readAt === null,
}
