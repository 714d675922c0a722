/**
 * @module Decides whether the time of a regular expression grows faster than its input, from recheck's analysis and
 * from the engine's time for hostile texts of growing length.
 */
import { check } from 'recheck'
import type { FoundRegex } from './find.ts'

export type Verdict =
  | { readonly kind: 'linear' }
  /** `attack`: the text that shows it. */
  | { readonly kind: 'grows'; readonly attack: string }

const ANALYSIS_TIMEOUT_MS = 30_000
const LINEAR: Verdict = { kind: 'linear' }

/** Lengths of hostile texts, each four times the one before. */
const LENGTHS = [1024, 4096, 16_384, 65_536]
/** For the shortest text: more is worse than quadratic. */
const MAX_SHORT_MS = 200
/** Shorter times are noise. */
const NOTICEABLE_MS = 10
/** For four times the text, a linear expression takes 4 times as long, a quadratic one 16 times; this is between. */
const MAX_GROWTH = 8
const RUNS = 5

/**
 * Accepts recheck's finding only if the engine confirms it: recheck treats a bounded repetition such as `{1,64}` as
 * unbounded. If recheck cannot decide, only the engine does.
 */
export async function analyse(regex: FoundRegex): Promise<Verdict> {
  const analysis = check(regex.source, regex.flags, { timeout: ANALYSIS_TIMEOUT_MS })
  // A few expressions that backtrack in many ways keep recheck busy beyond its own limit.
  const result = await Promise.race([analysis, Bun.sleep(2 * ANALYSIS_TIMEOUT_MS)])
  if (!result)
    return { kind: 'grows', attack: 'a text that recheck still searches for: write it with fewer repetitions' }
  if (result.status === 'safe') return LINEAR
  const { pumps, suffix } = result.status === 'vulnerable' ? result.attack : { pumps: [], suffix: '' }
  const found = pumps.map(({ prefix, pump }) => ({ prefix, pump, suffix }))
  return measure(regex, [...found, ...buildAttacks(regex)])
}

interface Attack {
  readonly prefix: string
  readonly pump: string
  readonly suffix: string
}

/** Runs of the characters that the expression itself names, and of those that many expressions repeat. */
export function buildAttacks({ source }: FoundRegex): Attack[] {
  const words = source.match(/[\p{L}\p{N}]+(?: [\p{L}\p{N}]+)*/gu) ?? []
  const signs = source.match(/[^\p{L}\p{N}\s\\]/gu) ?? []
  const pumps = new Set([' ', '\t', '\n', 'a', '0', '.', '/', '-', 'a@', 'a.', '<', '"', ...signs, ...words])
  return [...pumps].slice(0, MAX_PUMPS).map((pump) => ({ prefix: '', pump, suffix: '\0\n\0' }))
}

const MAX_PUMPS = 60

/** Whether the engine takes more than linear time for one of these attacks. */
export function measure({ source, flags }: FoundRegex, attacks: readonly Attack[]): Verdict {
  const regex = new RegExp(source, flags)
  // Measured again, because the time that other threads of the process took does not repeat.
  const grows = attacks.find((attack) => isGrowing(regex, attack) && isGrowing(regex, attack))
  return grows ? { kind: 'grows', attack: JSON.stringify(grows) } : LINEAR
}

/**
 * Twice in a row: once happens when the engine switches from its compiled code to its interpreter, which is slower by a
 * constant factor.
 */
function isGrowing(regex: RegExp, attack: Attack): boolean {
  const times: number[] = []
  for (const length of LENGTHS) {
    times.push(measureTime(regex, attack, length))
    if ((times[0] ?? 0) > MAX_SHORT_MS) return true
    const [earlier = 0, before = 0, now = 0] = times.slice(-3)
    if (times.length > 2 && now > NOTICEABLE_MS && now > before * MAX_GROWTH && before > earlier * MAX_GROWTH)
      return true
  }
  return false
}

/**
 * The shortest time of several runs, in milliseconds: CPU time where other programs took some, elapsed time where other
 * threads of this process did.
 */
function measureTime(regex: RegExp, { prefix, pump, suffix }: Attack, length: number): number {
  const text = `${prefix}${pump.repeat(Math.ceil(length / pump.length))}${suffix}`
  let shortest = Number.POSITIVE_INFINITY
  for (let run = 0; run < RUNS; run++) {
    const startedAt = performance.now()
    const before = process.cpuUsage()
    // As the code uses it: all matches, or the first.
    if (regex.global) text.replace(regex, '')
    else regex.exec(text)
    const { user, system } = process.cpuUsage(before)
    shortest = Math.min(shortest, (user + system) / 1000, performance.now() - startedAt)
    if (shortest < 1) break
  }
  return shortest
}
