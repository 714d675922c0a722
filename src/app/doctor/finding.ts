/** @module What a check of `tassis doctor` found. */

/** From good to bad, apart from `skipped`: the check could not be made, or does not apply. */
export type FindingStatus = 'ok' | 'warning' | 'failure' | 'skipped'

export interface Finding {
  readonly check: string
  readonly status: FindingStatus
  /** What it is about, if a check looks at several things: an address, a domain, the id of a webhook. */
  readonly subject?: string
  /** One or two sentences. */
  readonly message: string
  /** What to do; absent when there is nothing to mend. */
  readonly fix?: string
}

/** A finding before the check that made it is named. */
export type NewFinding = Omit<Finding, 'check'>

export const ok = (message: string, subject?: string): NewFinding => create('ok', message, undefined, subject)
export const skipped = (message: string, subject?: string): NewFinding => create('skipped', message, undefined, subject)
export const warning = (message: string, fix: string, subject?: string): NewFinding =>
  create('warning', message, fix, subject)
export const failure = (message: string, fix: string, subject?: string): NewFinding =>
  create('failure', message, fix, subject)

const create = (status: FindingStatus, message: string, fix?: string, subject?: string): NewFinding => ({
  status,
  ...(subject !== undefined && { subject }),
  message,
  ...(fix !== undefined && { fix }),
})

/** For checks of the database when there is none that this program can read. */
export const NO_DATA = skipped('There is no data yet that this program can read.')

/** Splits a warning of the service, whose first sentence says what is wrong, into message and fix. */
export function splitAdvice(text: string): { readonly message: string; readonly fix: string } {
  const end = /\. (?=[A-Z])/.exec(text)?.index
  return end === undefined ? { message: text, fix: '' } : { message: text.slice(0, end + 1), fix: text.slice(end + 2) }
}

export const isBad = ({ status }: Pick<Finding, 'status'>): boolean => status === 'warning' || status === 'failure'
