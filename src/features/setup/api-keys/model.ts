/** @module Wire shapes of API keys. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { Nullable, OptionalNullable, StrictObject, Timestamp, Uuid } from '#platform/http/schemas.ts'
import type { ApiKey } from './keys.ts'

const FIELDS = {
  id: Uuid({ description: 'Id of the key.' }),
  name: Type.String({ description: 'What it is for, in your words.' }),
  key_prefix: Type.String({ description: 'First 16 characters of the key.' }),
  scopes: Type.Array(Type.String(), { description: 'What it may do.' }),
  is_active: Type.Boolean({ description: 'Always true: a deleted key is listed no longer.' }),
  last_used_at: Nullable(Timestamp(), { description: 'When it was last used, to within a minute or so; null: never.' }),
  created_at: Timestamp({ description: 'When it was made.' }),
}

export const ApiKeyRecord = Type.Object(FIELDS)
export type ApiKeyRecord = Static<typeof ApiKeyRecord>

/** The answer to a creation, the only one that has the key itself. */
export const CreatedApiKey = Type.Object({
  ...FIELDS,
  key: Type.String({ description: 'The key. It is shown only here and stored nowhere: keep it.' }),
})

export const NewApiKey = StrictObject({
  name: Type.String({ minLength: 1, maxLength: 200, description: 'What the key is for, in your words.' }),
  scopes: OptionalNullable(Type.Array(Type.String(), { maxItems: 100 }), {
    description: 'What it may do, within what the calling key may; none given: all that the calling key may.',
  }),
})
export type NewApiKey = Static<typeof NewApiKey>

export const toApiKeyWire = (key: ApiKey): ApiKeyRecord => ({
  id: key.id,
  name: key.name,
  key_prefix: key.keyPrefix,
  scopes: [...key.scopes],
  is_active: true,
  last_used_at: isoTimeOrNull(key.lastUsedAt),
  created_at: isoTime(key.createdAt),
})
