/** @module Seeded random numbers for tests, so that a failing run can be repeated. */

export interface Random {
  /** Returns a number in [0, 1). */
  fraction(): number
  /** Returns an integer in [from, to]. */
  between(from: number, to: number): number
  /** Returns true with this probability. */
  chance(probability: number): boolean
}

/** Creates a linear congruential generator modulo 2^32; uses its upper bits. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  const fraction = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
  // The first numbers of neighbouring seeds are similar.
  for (let skipped = 0; skipped < 10; skipped++) fraction()
  return {
    fraction,
    between: (from, to) => from + Math.floor(fraction() * (to - from + 1)),
    chance: (probability) => fraction() < probability,
  }
}
