/** @module Wire form of API keys. */
import { type Static, Type } from '@sinclair/typebox'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { Nullable, OptionalNullable, StrictObject, Timestamp, Uuid } from '#platform/http/schemas.ts'
import type { ApiKey } from './keys.ts'

const FIELDS = {
  id: Uuid({ description: 'Id of the key.' }),
  name: Type.String({ description: 'Purpose of the key, in your own words.' }),
  key_prefix: Type.String({ description: 'First 16 characters of the key.' }),
  scopes: Type.Array(Type.String(), { description: 'Scopes of the key.' }),
  is_active: Type.Boolean({ description: 'Always true: deleted keys are not listed.' }),
  last_used_at: Nullable(Timestamp(), {
    description: 'When the key was last used, to within about a minute; null: never.',
  }),
  created_at: Timestamp({ description: 'When the key was created.' }),
}

export const ApiKeyRecord = Type.Object(FIELDS)
export type ApiKeyRecord = Static<typeof ApiKeyRecord>

/** The response to a creation, the only one that contains the key. */
export const CreatedApiKey = Type.Object({
  ...FIELDS,
  key: Type.String({ description: 'The key. It is shown only once and not stored: save it now.' }),
})
export type CreatedApiKey = Static<typeof CreatedApiKey>

export const NewApiKey = StrictObject({
  name: Type.String({ minLength: 1, maxLength: 200, description: 'Purpose of the key, in your own words.' }),
  scopes: OptionalNullable(Type.Array(Type.String(), { maxItems: 100 }), {
    description: 'Scopes of the new key, within those of the calling key; omitted: all scopes of the calling key.',
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
