/** @module Random numbers that a seed repeats, for the kill test: what was drawn in a failing run is drawn again. */

export interface Random {
  /** In [0, 1). */
  fraction(): number
  /** Integer in [from, to]. */
  between(from: number, to: number): number
  /** True with this probability. */
  chance(probability: number): boolean
}

/** A linear congruence modulo 2^32, of which the upper bits are used. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  const fraction = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
  // The first numbers of neighbouring seeds are alike.
  for (let skipped = 0; skipped < 10; skipped++) fraction()
  return {
    fraction,
    between: (from, to) => from + Math.floor(fraction() * (to - from + 1)),
    chance: (probability) => fraction() < probability,
  }
}
