/** @module The steps of a broadcast before it is sent. */

export const STEPS = ['list', 'content', 'test', 'send'] as const
export type Step = (typeof STEPS)[number]

export const STEP_NAMES: Readonly<Record<Step, string>> = {
  list: 'List',
  content: 'Content',
  test: 'Test email',
  send: 'Send',
}

/** Reads the step from the query of a URL. */
export function parseStep({ step }: Readonly<Record<string, unknown>>): { readonly step?: Step } {
  const known = STEPS.find((name) => name === step)
  return known ? { step: known } : {}
}
