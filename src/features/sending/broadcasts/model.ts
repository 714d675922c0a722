/** @module Wire shapes of broadcasts. */
import { type Static, Type } from '@sinclair/typebox'
import { Count, FreeMap, OptionalNullable, StrictObject, Text, Uuid } from '#platform/http/schemas.ts'

/** Default stream of broadcasts, so that they do not affect the reputation of transactional mail. */
export const BROADCAST_STREAM = 'broadcast'

const RENDERED_NOTE = 'A template, rendered for each contact.'

/** Field of both a broadcast and the sending of a newsletter. */
export const SendAt = OptionalNullable(Type.String(), {
  description: 'When to start (RFC 3339), at most a year ahead; omitted: now.',
})

export const NewBroadcast = StrictObject(
  {
    contact_list_id: Text('Id of the contact list; its active contacts get the broadcast.'),
    from_address: Text('Sender: `a@example.com` or `Name <a@example.com>`; its domain must be registered.'),
    subject: OptionalNullable(Type.String(), {
      description: `Subject; required unless the template has one, and overrides it. At most 998 characters. ${RENDERED_NOTE}`,
    }),
    html_body: OptionalNullable(Type.String(), {
      description: `HTML body, at most 1 MiB; overrides that of the template. ${RENDERED_NOTE}`,
    }),
    text_body: OptionalNullable(Type.String(), {
      description: `Text body, at most 1 MiB; overrides that of the template. ${RENDERED_NOTE}`,
    }),
    template_alias: OptionalNullable(Type.String(), {
      description: 'Alias of the template that supplies omitted parts, in its current version.',
    }),
    locale: OptionalNullable(Type.String(), { description: 'Language of the template, as in a send.' }),
    template_data: OptionalNullable(FreeMap(), {
      description: 'Values for the templates that all contacts share; at most 64 KiB of JSON.',
    }),
    reply_to: OptionalNullable(Type.String(), {
      description: 'Reply-To: one address, or several separated by commas.',
    }),
    headers: OptionalNullable(FreeMap(), {
      description: 'Extra headers: a map of names to strings, numbers or booleans. At most 50.',
    }),
    tags: OptionalNullable(Type.Array(Type.String()), { description: 'At most 20 tags of at most 128 characters.' }),
    send_at: SendAt,
    stream: OptionalNullable(Type.String(), {
      description: `Slug of the message stream; omitted: \`${BROADCAST_STREAM}\`, which is created when it does not exist.`,
    }),
  },
  {
    examples: [
      {
        contact_list_id: '01980f4e-6b1c-7d3a-9c52-3f1e0a7b9d24',
        from_address: 'Ada <ada@example.com>',
        subject: 'News for {{ contact.name }}',
        html_body: '<p>Hello {{ contact.name }}.</p><p><a href="{{ unsubscribe_url }}">Unsubscribe</a></p>',
      },
    ],
  },
)

export const BroadcastStarted = Type.Object({
  operation_id: Uuid({ description: 'The operation that shows its progress.' }),
  total_recipients: Count('Number of recipients: contacts that are active now and not suppressed.'),
  message: Text('The result in one sentence.'),
})
export type BroadcastStarted = Static<typeof BroadcastStarted>
