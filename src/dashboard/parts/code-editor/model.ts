/** @module What an editor of code shows. */

export type CodeLanguage = 'html' | 'json' | 'text'

export interface CodeProblem {
  /** From 1; undefined: of no single line. */
  readonly line: number | undefined
  readonly message: string
  readonly severity?: 'error' | 'warning'
}
