/** @module Defines the scan of each kind: the order of its rows, and when a row may be removed. */
import type { App } from '#features/core/app/app.ts'
import { raiseHorizon } from '#features/core/events/purge.ts'
import {
  deleteOperation,
  findOldOperation,
  isExpired,
  listOperationsAfter,
  type OldOperation,
} from '#features/core/operations/operations.ts'
import {
  findMessageById,
  listMessagesAfter,
  type MailboxMessage,
  removeMessage,
} from '#features/receiving/agent-mailboxes/messages.ts'
import { deleteComplaints, findLastComplaintAt } from '#features/receiving/complaints/removal.ts'
import {
  findInboundById,
  type InboundEmail,
  listInboundAfter,
  removeInbound,
} from '#features/receiving/inbound/api/inbound-emails.ts'
import {
  deleteBroadcast,
  dropBroadcastContent,
  findRetainedBroadcast,
  hasBroadcast,
  hasBroadcastEndedBefore,
  listBroadcastsAfter,
  type RetainedBroadcast,
} from '#features/sending/broadcasts/purge.ts'
import { resolveDeadLetter } from '#features/sending/dead-letters/dead-letters.ts'
import { unlinkOperation } from '#features/sending/newsletters/newsletters.ts'
import {
  deleteEmail,
  dropEmailContent,
  findOldEmail,
  findUnchangedRecipients,
  hasEmails,
  hasEndedBefore,
  hasOpenEmails,
  type OldEmail,
  readEmailsAfter,
} from '#features/sending/queue/retire.ts'
import { deleteEngagement } from '#features/sending/tracking/engage.ts'
import type { Tx } from '#platform/db/open.ts'
import type { Scan } from './scan.ts'

/** Bodies and attachments of ended emails. */
export const contentScan: Scan<OldEmail> = {
  name: 'content',
  after: readEmailsAfter,
  byId: findOldEmail,
  retire(app, tx, email, before) {
    if (!hasEndedBefore(email, before)) return false
    dropEmailContent(app, tx, email)
    return true
  },
}

/** Sources of broadcasts whose emails have all ended. */
export const broadcastContentScan: Scan<RetainedBroadcast> = {
  name: 'broadcast content',
  after: listBroadcastsAfter,
  byId: findRetainedBroadcast,
  retire(app, tx, broadcast, before) {
    if (!hasBroadcastEndedBefore(broadcast, before)) return false
    if (broadcast.operationId !== null && hasOpenEmails(tx.db, broadcast.operationId)) return false
    dropBroadcastContent(app, tx, broadcast)
    return true
  },
}

/** Ended emails, with their dependent rows. */
export const emailScan: Scan<OldEmail> = {
  name: 'emails',
  after: readEmailsAfter,
  byId: findOldEmail,
  retire(app, tx, email, before) {
    const recipientIds = findUnchangedRecipients(tx, email, before)
    if (!recipientIds || (findLastComplaintAt(tx, email.id) ?? 0) >= before) return false
    raiseHorizon(tx, 'logs', before)
    removeEmail(app, tx, email, recipientIds)
    return true
  },
}

function removeEmail(app: App, tx: Tx, email: OldEmail, recipientIds: readonly number[]): void {
  deleteEngagement(tx, email.id, recipientIds)
  deleteComplaints(app, tx, email.id)
  for (const id of recipientIds) resolveDeadLetter(tx, id)
  deleteEmail(app, tx, email)
}

/** Broadcasts whose emails are all removed. */
export const broadcastScan: Scan<RetainedBroadcast> = {
  name: 'broadcasts',
  after: listBroadcastsAfter,
  byId: findRetainedBroadcast,
  retire(app, tx, broadcast, before) {
    if (!hasBroadcastEndedBefore(broadcast, before)) return false
    if (broadcast.operationId !== null && hasEmails(tx.db, broadcast.operationId)) return false
    raiseHorizon(tx, 'logs', before)
    deleteBroadcast(app, tx, broadcast)
    return true
  },
}

/** Operations without references. */
export const operationScan: Scan<OldOperation> = {
  name: 'operations',
  after: listOperationsAfter,
  byId: findOldOperation,
  retire(app, tx, operation) {
    if (!isExpired(operation, app.confirmedNow())) return false
    if (hasEmails(tx.db, operation.id) || hasBroadcast(tx.db, operation.id)) return false
    if (!deleteOperation(tx, operation.id)) return false
    unlinkOperation(tx, operation.id)
    return true
  },
}

/** Inbound emails. */
export const inboundScan: Scan<InboundEmail> = {
  name: 'inbound',
  after: listInboundAfter,
  byId: findInboundById,
  retire(app, tx, email) {
    removeInbound(app, tx, email, false)
    return true
  },
}

/** Messages of agent mailboxes, received and sent. */
export const mailboxScan: Scan<MailboxMessage> = {
  name: 'mailboxes',
  after: listMessagesAfter,
  byId: findMessageById,
  retire(app, tx, message) {
    removeMessage(app, tx, message)
    return true
  },
  isKept: ({ emailId, readAt }) => emailId === null && readAt === null,
}
