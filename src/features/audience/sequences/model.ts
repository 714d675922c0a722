/** @module Wire shapes of sequences. */
import { type Static, Type } from '@sinclair/typebox'
import * as S from '#platform/http/schemas.ts'

const EventName = Type.String({ minLength: 1, maxLength: 100 })
const DEFINITION = {
  name: S.Text('Name; only your team sees it.'),
  from: S.Text('Sender: `a@example.com` or `Name <a@example.com>`; its domain must be registered.'),
  reply_to: S.OptionalNullable(Type.String(), { description: 'Reply-To: one address, or several with commas.' }),
  stream: S.OptionalNullable(Type.String(), { description: 'Slug of the stream; default `transactional`.' }),
  list_id: S.OptionalNullable(Type.String(), {
    description: 'Contact list: who becomes an active contact, after the confirmation if it asks for one, enters.',
  }),
  event: S.OptionalNullable(EventName, { description: 'Event whose addresses enter. Set either this or list_id.' }),
  stop_event: S.OptionalNullable(EventName, { description: 'Event that stops an address, such as `purchased`.' }),
}
export const SequenceRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the sequence.' }),
  ...DEFINITION,
  status: S.StringEnum(['draft', 'active', 'paused'], { description: 'Status.' }),
  steps: Type.Array(
    Type.Object({
      id: Type.Number({ description: 'Id of the step; a later step has a higher one.' }),
      delay: Type.Integer({ description: 'Seconds after the step before was sent; of the first: after the entry.' }),
      template_id: S.Uuid({ description: 'Template that is sent, in its version at that time.' }),
      subject: S.TextOrNull('Subject in place of that of the template.'),
    }),
    { description: 'The emails in order.' },
  ),
  created_at: S.Timestamp({ description: 'When it was created.' }),
  updated_at: S.Timestamp({ description: 'When it last changed.' }),
})
/** What a sequence is, as it is stored and returned. */
export type Definition = Required<Pick<Static<typeof SequenceRecord>, keyof typeof DEFINITION | 'steps'>>

const Steps = Type.Array(
  S.StrictObject({
    id: Type.Optional(Type.Number({ description: 'Id of a step that stays; omitted for a new one.' })),
    delay: Type.Union([Type.Integer(), Type.String()], {
      description: 'Seconds, or a text such as `3d`, `2h` or `30m`; at most 365 days.',
      errorMessage: 'a number of seconds, or a text such as 3d',
    }),
    template_id: S.OptionalNullable(Type.String(), { description: 'Id of the template.' }),
    template_alias: S.OptionalNullable(Type.String(), { description: 'Its alias, in place of template_id.' }),
    subject: S.OptionalNullable(Type.String({ maxLength: 998 }), { description: 'Subject, in Jinja syntax.' }),
  }),
  { maxItems: 20, description: 'The emails in order, at most 20; a change replaces them.' },
)
const CHANGES = {
  steps: Type.Optional(Steps),
  status: Type.Optional(S.StringEnum(['active', 'paused'], { description: 'Whether its emails are sent.' })),
}
const STEPS = [{ delay: '3d', template_alias: 'first-steps' }]
export const NewSequence = S.StrictObject(
  { ...DEFINITION, ...CHANGES },
  { examples: [{ name: 'Welcome', from: 'Ada <ada@example.com>', event: 'signed_up', steps: STEPS }] },
)
export const SequenceChange = S.StrictObject(
  { ...Type.Partial(Type.Object(DEFINITION)).properties, ...CHANGES },
  { description: 'Omitted fields keep their value.', examples: [{ status: 'active' }] },
)
export type SequenceInput = Static<typeof SequenceChange>

export const PersonRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the person in the sequence.' }),
  email: S.Text('Address.'),
  status: S.StringEnum(['active', 'finished', 'stopped'], { description: 'Status.' }),
  reason: S.TextOrNull(
    'Why it stopped: replied, unsubscribed, bounced, complained, suppressed, event or removed. Of an active one, a sentence that says why its next step could not be sent; it is tried again.',
  ),
  steps_sent: S.Count('Emails sent to it.'),
  next_due_at: S.TimeOrNull('When the next one is due; null: none is.'),
  variables: Type.Unknown({ description: 'Variables with which it entered; null: none.' }),
  created_at: S.Timestamp({ description: 'When it entered.' }),
  ended_at: S.TimeOrNull('When it finished or stopped. It is deleted, and may enter again, a year later.'),
})
export const NewEvent = S.StrictObject(
  {
    name: { ...EventName, description: 'Name of the event.' },
    email: S.Text('Address.'),
    variables: S.OptionalNullable(S.FreeMap(), { description: 'Variables of the templates; at most 8 KiB of JSON.' }),
  },
  { examples: [{ name: 'signed_up', email: 'bob@example.com', variables: { first_name: 'Bob' } }] },
)
export const EventResult = Type.Object({
  entered: S.Count('Sequences that the address entered.'),
  stopped: S.Count('Sequences in which it was stopped.'),
})
