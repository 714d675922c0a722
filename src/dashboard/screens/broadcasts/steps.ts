/** @module The steps of a broadcast before it is sent. */
import { keep, readKnown, type Search } from '../../parts/search.ts'

export const STEPS = ['list', 'content', 'test', 'send'] as const
export type Step = (typeof STEPS)[number]

export const STEP_NAMES: Readonly<Record<Step, string>> = {
  list: 'List',
  content: 'Content',
  test: 'Test email',
  send: 'Send',
}

export const parseStep = ({ step }: Search): { readonly step?: Step } => keep('step', readKnown(STEPS, step))
