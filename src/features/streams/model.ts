/** @module Wire shapes of message streams. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime } from '#platform/http/envelope.ts'
import { Closed, Timestamp, Uuid } from '#platform/http/schemas.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Stream } from './streams.ts'

export const StreamRecord = Type.Object({
  id: Uuid({ description: 'Id of the stream.' }),
  account_id: Uuid({ description: 'Account it belongs to.' }),
  slug: Type.String({ description: 'What a send gives as `stream`.' }),
  name: Type.String({ description: 'Name.' }),
  created_at: Timestamp({ description: 'When it was made.' }),
  updated_at: Timestamp({ description: 'When it was last changed.' }),
})
export type StreamRecord = Static<typeof StreamRecord>

const Slug = Type.String({
  description: 'What a send gives as `stream`: 1 to 63 of a to z, 0 to 9 and "-", beginning with a letter or digit.',
})
const Name = Type.String({ minLength: 1, maxLength: 200, description: 'Name.' })

export const NewStream = Closed({ slug: Slug, name: Name })

export const StreamChange = Closed(
  { slug: Type.Optional(Slug), name: Type.Optional(Name) },
  { description: 'At least one field; those left out keep their value.' },
)

export const streamWire = (stream: Stream, accountUuid: string): StreamRecord => ({
  id: formatUuid(stream.uuid),
  account_id: accountUuid,
  slug: stream.slug,
  name: stream.name,
  created_at: isoTime(stream.createdAt),
  updated_at: isoTime(stream.updatedAt),
})
