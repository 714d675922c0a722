/** @module Wire form of API keys. */
import { type Static, Type } from '@sinclair/typebox'
import type { ActorLimits } from '#features/core/app/app.ts'
import { toWire } from '#platform/http/envelope.ts'
import { extraFields, Nullable, OptionalNullable, StrictObject, Timestamp, Uuid } from '#platform/http/schemas.ts'
import type { Millis } from '#platform/units.ts'

export interface ApiKey {
  readonly id: string
  readonly name: string
  readonly keyPrefix: string
  readonly scopes: readonly string[]
  readonly limits: ActorLimits
  readonly lastUsedAt: Millis | null
  readonly createdAt: Millis
}

const FIELDS = {
  id: Uuid({ description: 'Id of the key.' }),
  name: Type.String({ description: 'Purpose of the key, in your own words.' }),
  key_prefix: Type.String({ description: 'First 16 characters of the key.' }),
  scopes: Type.Array(Type.String(), { description: 'Scopes of the key.' }),
  is_active: Type.Boolean({ description: 'False once the key has expired; deleted keys are not listed.' }),
  ...extraFields({
    expires_at: Nullable(Timestamp(), { description: 'When the key stops working; null: never.' }),
    domains: Nullable(Type.Array(Type.String()), {
      description: 'The domains that the key may send from; null: all of the account.',
    }),
    networks: Nullable(Type.Array(Type.String()), {
      description: 'The addresses and networks that the key may be used from; null: all.',
    }),
    drafts: Type.Boolean({ description: 'Whether what the key sends is a draft until a person releases it.' }),
    allowed_recipients: Type.Array(Type.String(), { description: 'Whom the key may send to; empty: all.' }),
    daily_limit: Nullable(Type.Integer(), {
      description: 'Emails, one for each recipient, that the key may send on a day (UTC); null: any.',
    }),
    mailbox_id: Nullable(Uuid(), { description: 'The only agent mailbox of the key; null: it is for all.' }),
    connected_by: Nullable(Type.String(), {
      description: 'Of a program connected by OAuth: email address of the user who did it; null: an ordinary key.',
    }),
  }),
  last_used_at: Nullable(Timestamp(), {
    description: 'When the key was last used, to within about a minute; null: never.',
  }),
  created_at: Timestamp({ description: 'When the key was created.' }),
}

export const ApiKeyRecord = Type.Object(FIELDS)

/** The response to a creation, the only one that contains the key. */
export const CreatedApiKey = Type.Object({
  ...FIELDS,
  key: Type.String({ description: 'The key. It is shown only once and not stored: save it now.' }),
})

const texts = (minItems: number, maxItems: number, description: string) =>
  OptionalNullable(Type.Array(Type.String(), { minItems, maxItems }), { description })

const LIMIT_FIELDS = {
  expires_at: OptionalNullable(Type.String(), {
    description: 'When the key stops working, a date-time with a time zone; null: never.',
  }),
  // Without an entry the key could do nothing, which is hardly meant.
  domains: texts(
    1,
    50,
    'The domains that the key may send from, at most 50; a send from another domain is a 403. Null: all of the account.',
  ),
  networks: texts(
    1,
    50,
    'The addresses and networks that the key may be used from, such as 192.0.2.7 or 10.0.0.0/8, at most 50; a request from elsewhere is a 403. Null: all.',
  ),
  drafts: Type.Optional(
    Type.Boolean({
      description:
        'True for a program that must ask: what it sends waits as a draft until a person releases it. This and the three limits below leave a key no scope to change anything but messages.',
    }),
  ),
  allowed_recipients: texts(
    0,
    100,
    'The only addresses, or whole domains as `@example.com`, that the key may send to; any other in to, cc or bcc is a 422. Null or empty: all.',
  ),
  daily_limit: OptionalNullable(Type.Integer({ minimum: 1, maximum: 1_000_000 }), {
    description:
      'How many emails, one for each recipient, the key may send on a day (UTC), drafts included; null: no limit of its own.',
  }),
  mailbox_id: OptionalNullable(Type.String(), {
    description:
      'Id of an agent mailbox: the key sees only its messages and sends only from its address. Null: no such limit.',
  }),
}

export const NewApiKey = StrictObject({
  ...LIMIT_FIELDS,
  name: Type.String({ minLength: 1, maxLength: 200, description: 'Purpose of the key, in your own words.' }),
  scopes: texts(0, 100, 'Scopes of the new key, within those of the calling key; omitted: all that it has.'),
})

export const ImportedApiKey = StrictObject({
  name: NewApiKey.properties.name,
  drafts: LIMIT_FIELDS.drafts,
  scopes: Type.Optional(Type.Array(Type.String(), { maxItems: 100, description: 'Scopes of the key; default: all.' })),
  key: Type.String({ minLength: 1, maxLength: 512, description: 'The key.' }),
})

export const ApiKeyPatch = StrictObject({
  ...LIMIT_FIELDS,
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'Purpose of the key.' })),
  scopes: Type.Optional(
    Type.Array(Type.String(), {
      minItems: 1,
      maxItems: 100,
      description: 'All scopes of the key from now on, within those of the calling key.',
    }),
  ),
})

/** A change of a key; what is undefined stays as it is. */
export type ApiKeyChange = Static<typeof ApiKeyPatch>
export type LimitsInput = Omit<ApiKeyChange, 'name' | 'scopes'>

/**
 * @param now decides whether the key has expired
 * @param connectors email addresses of users by the keys of the programs that they connected
 */
export function toApiKeyWire(key: ApiKey, now: Millis, connectors: ReadonlyMap<string, string> = new Map()) {
  const { expiresAt = null, domains = null, networks = null, dailyLimit = null, mailboxId = null } = key.limits
  const { drafts = false, allowedRecipients = [] } = key.limits
  const limits = { expiresAt, domains, networks, drafts, allowedRecipients, dailyLimit, mailboxId }
  return toWire(
    ApiKeyRecord,
    { ...key, ...limits },
    { id: key.id, is_active: expiresAt === null || expiresAt > now, connected_by: connectors.get(key.id) ?? null },
  )
}
