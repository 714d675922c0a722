/** @module What a check of `tassis doctor` found. */
import type { Finding } from '../status-model.ts'

/** A finding before the check that made it is named. */
export type NewFinding = Omit<Finding, 'check'>

export const ok = (message: string, subject: string | null = null): NewFinding => ({
  status: 'ok',
  subject,
  message,
  fix: null,
})
export const skipped = (message: string, subject?: string): NewFinding => ({
  ...ok(message, subject),
  status: 'skipped',
})
export const warning = (message: string, fix: string, subject?: string): NewFinding => ({
  ...ok(message, subject),
  status: 'warning',
  fix: fix || null,
})
export const failure = (message: string, fix: string, subject?: string): NewFinding => ({
  ...warning(message, fix, subject),
  status: 'failure',
})

/** For checks of the database when there is none that this program can read. */
export const NO_DATA = skipped('There is no data yet that this program can read.')

/** Splits a warning of the service, whose first sentence says what is wrong, into message and fix. */
export function splitAdvice(text: string): { readonly message: string; readonly fix: string } {
  const end = /\. (?=[A-Z])/.exec(text)?.index
  return end === undefined ? { message: text, fix: '' } : { message: text.slice(0, end + 1), fix: text.slice(end + 2) }
}

export const isBad = ({ status }: Pick<Finding, 'status'>): boolean => status === 'warning' || status === 'failure'
