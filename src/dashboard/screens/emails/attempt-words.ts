/** @module The words of an attempt: its dialogue, timings, and who must act. Pure. */
import type { Attempt, DialogueLine } from '#features/sending/delivery/attempt-model.ts'

const MARKS: Readonly<Record<DialogueLine['from'], string>> = { client: '>', server: '<', note: '*' }

/** Controls that reorder or break a line; the API has removed those of ASCII. */
const REORDERING = /[\u0080-\u009f\u2028-\u202e\u2066-\u2069]/g

/** One line for each line of the dialogue. */
export const toDialogueText = (dialogue: readonly DialogueLine[]): string =>
  dialogue
    .map(
      ({ at_ms: at, from, text }) => `${String(at).padStart(7)} ${MARKS[from]} ${text.replace(REORDERING, '\ufffd')}`,
    )
    .join('\n')

/** Says whether the session was reused, because then it has no `connect`. */
export const toTimingsText = (timings: Readonly<Record<string, number>>): string =>
  [
    ...(timings['connect'] === undefined ? ['session reused'] : []),
    ...Object.entries(timings).map(([phase, ms]) => `${phase} ${ms} ms`),
  ].join(', ')

const RESPONSIBLE: Readonly<Record<Attempt['who_must_act'], string>> = {
  nobody: 'Nobody',
  recipient: 'The recipient, or the operator of the receiving server',
  sender: 'You',
  operator: 'The operator of this service',
}

export const toResponsibleWords = (who: Attempt['who_must_act']): string => RESPONSIBLE[who]
