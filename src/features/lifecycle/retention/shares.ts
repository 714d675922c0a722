/**
 * @module Computes max-min fair shares of a byte budget: an account below an equal share keeps everything, and the
 * others divide the rest equally. Sub-accounts divide the share of their parent; otherwise a tenant could multiply its
 * share by creating sub-accounts. Pure arithmetic.
 */

/**
 * An account above its share is cut to this fraction of its share, so that it does not exceed the share again
 * immediately.
 */
const TARGET_FRACTION = 0.95

/** The largest use within its fair share; infinite when all fit. */
export function computeFairShare(uses: readonly number[], budget: number): number {
  let leftBytes = budget
  for (const [index, use] of uses.toSorted((a, b) => a - b).entries()) {
    const share = leftBytes / (uses.length - index)
    if (use > share) return share
    leftBytes -= use
  }
  return Number.POSITIVE_INFINITY
}

/** An account above its fair share. */
export interface Excess {
  readonly accountId: number
  readonly usedBytes: number
  readonly shareBytes: number
  /** Bytes that it may keep. */
  readonly keptBytes: number
}

/**
 * The accounts above their fair share; none while the sum is within the budget.
 * @param uses bytes by account
 * @param parents parent accounts of sub-accounts
 */
export function findExcesses(
  uses: ReadonlyMap<number, number>,
  budget: number,
  parents: ReadonlyMap<number, number>,
): Excess[] {
  const families = [...Map.groupBy(uses, ([accountId]) => parents.get(accountId) ?? accountId).values()]
  const share = computeFairShare(families.map(sumFamily), budget)
  return families
    .filter((family) => sumFamily(family) > share)
    .flatMap((family) => {
      const shareBytes = computeFairShare(
        family.map(([, bytes]) => bytes),
        share,
      )
      return family
        .filter(([, usedBytes]) => usedBytes > shareBytes)
        .map(([accountId, usedBytes]) => ({
          accountId,
          usedBytes,
          shareBytes,
          keptBytes: shareBytes * TARGET_FRACTION,
        }))
    })
}

const sumFamily = (uses: readonly (readonly [number, number])[]): number =>
  uses.reduce((sum, [, bytes]) => sum + bytes, 0)
