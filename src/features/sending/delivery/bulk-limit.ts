/**
 * @module The share of a site, its connections and all slots that bulk mail may use. The rest stays free for other
 * mail.
 */

const BULK_FRACTION = 0.8

/**
 * Bulk mail may start another message while fewer than this number of `max` are in use, by any mail. At least 1, or
 * bulk mail would never start.
 */
export const computeBulkLimit = (max: number): number => Math.max(1, Math.floor(max * BULK_FRACTION))
