/** @module Wire shapes of sequences. */
import { type Static, Type } from '@sinclair/typebox'
import * as S from '#platform/http/schemas.ts'

const EventName = Type.String({ minLength: 1, maxLength: 100 })
const Step = S.StrictObject({
  delay: Type.String({
    pattern: '^(0|\\d{1,5}[smhd])$',
    description: 'How long after the step before, or of the first after the entry: `3d`, `2h`, `30m`, `0`.',
    errorMessage: 'a text such as 3d, 2h, 30m or 0',
    examples: ['3d'],
  }),
  template_alias: S.Text('Template that is sent, in its version at that time.'),
})
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
  steps: Type.Optional(
    Type.Array(Step, {
      maxItems: 20,
      description: 'The emails in order, at most 20, each template once. A change replaces them.',
    }),
  ),
}
const STATUS = { description: 'Nobody enters a draft; who enters a paused one waits.' }
const STORED = Type.Required(Type.Object(DEFINITION)).properties
const Settings = Type.Object({ ...STORED, status: S.StringEnum(['draft', 'active', 'paused'], STATUS) })
export type Settings = Static<typeof Settings>

export const SequenceRecord = Type.Object({
  id: S.Uuid({ description: 'Id of the sequence.' }),
  ...Settings.properties,
  created_at: S.Timestamp({ description: 'When it was created.' }),
  updated_at: S.Timestamp({ description: 'When it last changed.' }),
})
const STARTED = Type.Optional(S.StringEnum(['active', 'paused'], STATUS))
const STEPS = [{ delay: '3d', template_alias: 'first-steps' }]
export const NewSequence = S.StrictObject(
  { ...DEFINITION, status: STARTED },
  { examples: [{ name: 'Welcome', from: 'Ada <ada@example.com>', event: 'signed_up', steps: STEPS }] },
)
export const SequenceChange = S.StrictObject(
  { ...Type.Partial(Type.Object(DEFINITION)).properties, status: STARTED },
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
