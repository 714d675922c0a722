/**
 * @module The consistency rules of all features, for `tassis check`. Add a new rule to this list and to the
 * `consistency.ts` of the feature that owns its tables. A rule that reads tables of several features belongs to the
 * last of them in rank order.
 */
import type { Database } from 'bun:sqlite'
import { subAccountQuota } from '#features/core/accounts/consistency.ts'
import { eventCounters, eventNumbers } from '#features/core/events/consistency.ts'
import {
  conversationCounts,
  mailboxCounts,
  messageSearchIndex,
} from '#features/receiving/agent-mailboxes/consistency.ts'
import { complaintCounters, complaintEvents, streamCounters } from '#features/receiving/complaints/consistency.ts'
import { inboundEvents, inboundTotal } from '#features/receiving/inbound/api/consistency.ts'
import {
  dailyStatsRule,
  domainStatsRule,
  hourStatsRule,
  monthStatsRule,
} from '#features/reporting/analytics/consistency.ts'
import {
  begunCounters,
  broadcastEmails,
  broadcastProgress,
  monthlyQuota,
} from '#features/sending/broadcasts/consistency.ts'
import { deadLetterRecipients } from '#features/sending/dead-letters/consistency.ts'
import {
  capturedCounters,
  deliveryTimes,
  emailCounters,
  emailReferences,
  emailSearchIndex,
  emailStatuses,
  finalEvents,
  queueEntries,
  recipientCounts,
  sandboxCounters,
  sentOnce,
} from '#features/sending/queue/consistency.ts'
import { openEvents } from '#features/sending/tracking/consistency.ts'
import { contactConfirmations, contactCounters, contactOptIns } from '#features/setup/contact-store/consistency.ts'
import {
  suppressedContacts,
  suppressionCounters,
  suppressionTotal,
} from '#features/setup/suppression-store/consistency.ts'
import { pendingDeliveries, webhookCursors } from '#features/webhooks/webhooks/manage/consistency.ts'
import { type ConsistencyRule, checkRule, type Violation } from '#platform/db/consistency.ts'

/** In the order of the output of `tassis check`. */
export const CONSISTENCY_RULES: readonly ConsistencyRule[] = [
  eventNumbers,
  emailCounters,
  eventCounters,
  suppressionTotal,
  suppressionCounters,
  contactCounters,
  contactConfirmations,
  suppressedContacts,
  contactOptIns,
  sandboxCounters,
  capturedCounters,
  streamCounters,
  begunCounters,
  inboundTotal,
  inboundEvents,
  complaintCounters,
  complaintEvents,
  monthlyQuota,
  subAccountQuota,
  broadcastProgress,
  broadcastEmails,
  recipientCounts,
  queueEntries,
  deliveryTimes,
  finalEvents,
  sentOnce,
  deadLetterRecipients,
  pendingDeliveries,
  webhookCursors,
  openEvents,
  mailboxCounts,
  conversationCounts,
  messageSearchIndex,
  emailSearchIndex,
  emailReferences,
  emailStatuses,
  dailyStatsRule,
  domainStatsRule,
  monthStatsRule,
  hourStatsRule,
]

/** Checks all rules in the connection's read transaction. */
export const checkConsistency = (db: Database): Violation[] => CONSISTENCY_RULES.map((rule) => checkRule(db, rule))
