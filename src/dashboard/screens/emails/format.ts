/** @module How the screens of emails show their state, who must act, and the dialogue and timings of an attempt. Pure. */
import type { EmailAttempt, EmailSummary, RecipientExplanation } from '#client/api.ts'

type DialogueLine = NonNullable<EmailAttempt['dialogue']>[number]
type Responsible = RecipientExplanation['who_must_act']

export const RESPONSIBLE_LABELS: Readonly<Record<Responsible, string>> = {
  nobody: 'Nobody',
  recipient: 'The recipient or their mail provider',
  sender: 'You',
  operator: 'The operator of this server',
}

const MARKS: Readonly<Record<DialogueLine['from'], string>> = { client: '>', server: '<', note: '*' }

/** Controls that reorder or break a line; the API has removed those of ASCII. */
const REORDERING = /[\u0080-\u009f\u2028-\u202e\u2066-\u2069]/g

export const formatDialogue = (dialogue: readonly DialogueLine[]): string =>
  dialogue
    .map(
      ({ at_ms: at, from, text }) => `${String(at).padStart(7)} ${MARKS[from]} ${text.replace(REORDERING, '\ufffd')}`,
    )
    .join('\n')

/** Says whether the session was reused, because then it has no `connect`. */
export const formatTimings = (timings: Readonly<Record<string, number>>): string =>
  [
    ...(timings['connect'] === undefined ? ['session reused'] : []),
    ...Object.entries(timings).map(([phase, ms]) => `${phase} ${ms} ms`),
  ].join(', ')

/** `to` joins the addresses; their names are not in it. */
export const countRecipients = ({ to, cc, bcc }: Pick<EmailSummary, 'to' | 'cc' | 'bcc'>): number =>
  (to === '' ? 0 : to.split(', ').length) + cc.length + bcc.length
