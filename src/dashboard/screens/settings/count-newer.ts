/** @module How many rows of a list are new. */

export interface Identified {
  readonly id: string
}

/** Number of rows that are newer than those shown. Both lists have the newest row first. */
export function countNewer(shown: readonly Identified[], latest: readonly Identified[]): number {
  const known = new Set(shown.map(({ id }) => id))
  const firstKnown = latest.findIndex(({ id }) => known.has(id))
  return firstKnown < 0 ? latest.length : firstKnown
}
