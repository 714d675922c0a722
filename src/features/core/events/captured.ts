/**
 * @module Counts events of captured mail by hour, beside the counters of all events: what is left is mail that was
 * really sent.
 */

import type { Tx } from '#platform/db/commit.ts'
import type { Millis } from '#platform/time/clock.ts'
import { count } from './record.ts'

/** Types that stats by hour need; deliveries of captured mail have the counter `sandbox:delivered`. */
export const CAPTURED_TYPES = ['bounced', 'opened', 'clicked', 'unsubscribed'] as const
export type CapturedType = (typeof CAPTURED_TYPES)[number]

/** Prefix of the counters. */
export const CAPTURED_PREFIX = 'captured:'

export const toCapturedMetric = (type: CapturedType): string => `${CAPTURED_PREFIX}${type}`

/** Counts an event of captured mail. */
export const countCaptured = (tx: Tx, accountId: number, type: CapturedType, at: Millis): void =>
  count(tx, accountId, toCapturedMetric(type), at, 1)
