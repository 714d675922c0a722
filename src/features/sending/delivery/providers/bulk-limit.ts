/** @module Limits bulk mail to a part of the slots or connections, so that the rest stays free for other mail. */

const BULK_FRACTION = 0.8

/**
 * Bulk mail may start another message only while fewer than this many of the `max` slots or connections are in use, by
 * any mail. At least 1, or bulk mail would never start.
 */
export const computeBulkLimit = (max: number): number => Math.max(1, Math.floor(max * BULK_FRACTION))
