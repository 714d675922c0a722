/** @module What a check of `tassis doctor` found. */
import type { Finding } from '../status-model.ts'

/** A finding before the check that made it is named. */
export type NewFinding = Omit<Finding, 'check'>

/** What a check found about one or several things. */
export type Found = NewFinding | readonly NewFinding[]

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

/** From a warning of the service, whose first sentence says what is wrong, and the others what to do. */
export function failWithAdvice(text: string, subject?: string): NewFinding {
  const end = /\. (?=[A-Z])/.exec(text)?.index
  return end === undefined ? failure(text, '', subject) : failure(text.slice(0, end + 1), text.slice(end + 2), subject)
}

export const isBad = ({ status }: Pick<Finding, 'status'>): boolean => status === 'warning' || status === 'failure'
