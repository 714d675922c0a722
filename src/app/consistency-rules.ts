/**
 * @module The consistency rules of all features, for `tassis check`: what each `consistency.ts` exports. A rule that reads
 * tables of several features belongs to the last of them in rank order.
 */
import type { Database } from 'bun:sqlite'
import * as sequences from '#features/audience/sequences/consistency.ts'
import * as accounts from '#features/core/accounts/consistency.ts'
import * as events from '#features/core/events/consistency.ts'
import * as agentMailboxes from '#features/receiving/agent-mailboxes/consistency.ts'
import * as complaints from '#features/receiving/complaints/consistency.ts'
import * as inbound from '#features/receiving/inbound/api/consistency.ts'
import * as analytics from '#features/reporting/analytics/consistency.ts'
import * as broadcasts from '#features/sending/broadcasts/consistency.ts'
import * as deadLetters from '#features/sending/dead-letters/consistency.ts'
import * as queue from '#features/sending/queue/consistency.ts'
import * as tracking from '#features/sending/tracking/consistency.ts'
import * as contactStore from '#features/setup/contact-store/consistency.ts'
import * as suppressionStore from '#features/setup/suppression-store/consistency.ts'
import * as webhooks from '#features/webhooks/webhooks/manage/consistency.ts'
import { type ConsistencyRule, checkRule, type Violation } from '#platform/db/consistency.ts'

export const CONSISTENCY_RULES: readonly ConsistencyRule[] = [
  accounts,
  events,
  agentMailboxes,
  complaints,
  inbound,
  analytics,
  broadcasts,
  deadLetters,
  queue,
  tracking,
  contactStore,
  suppressionStore,
  sequences,
  webhooks,
].flatMap((rules) => Object.values<unknown>(rules).filter((rule): rule is ConsistencyRule => typeof rule === 'object'))

export const checkConsistency = (db: Database): Violation[] => CONSISTENCY_RULES.map((rule) => checkRule(db, rule))
