/** @module How much of a site, its connections and all places bulk mail may use: the rest is free for other mail whenever it comes. */

const BULK_FRACTION = 0.8

/** How many of `most` may be in use, by whatever mail, for bulk mail to take one more; at least 1, or it would never have any. */
export const computeBulkLimit = (max: number): number => Math.max(1, Math.floor(max * BULK_FRACTION))
