/** @module What an examination finds, in sentences. */

export interface Finding {
  /** The rule, as a statement that should be true. */
  readonly rule: string
  /** What differs, one sentence each; the first few. Empty: the rule holds. */
  readonly differences: readonly string[]
}

/** Differences told of one rule; more say nothing new. */
export const MOST_DIFFERENCES = 10

/** The first few rows in words; one more says that there are more. */
export function told<T>(rows: readonly T[], tell: (row: T) => string): string[] {
  const sentences = rows.slice(0, MOST_DIFFERENCES).map(tell)
  return rows.length > MOST_DIFFERENCES ? [...sentences, 'and more'] : sentences
}
