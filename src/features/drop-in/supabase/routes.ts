/**
 * @module `/hooks/supabase`: shows an API key the URL and secret of its hook; takes the signed requests of Supabase, and
 * turns them into send requests.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { acceptTranslated } from '#features/sending/accept/accept.ts'
import { requireSendRequest } from '#features/sending/accept/batch.ts'
import { createIdempotency } from '#features/sending/accept/idempotency.ts'
import type { TakeRate } from '#features/sending/accept/sendable.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import type { Authenticator } from '#features/setup/api-keys/keys.ts'
import { requireScope } from '#features/setup/api-keys/scopes.ts'
import { canonicaliseLocale } from '#features/setup/templates/locale.ts'
import { hasTemplate } from '#features/setup/templates/templates.ts'
import { equalBytes, hmacSha256, type KeyRing, sha256 } from '#platform/crypto/crypto.ts'
import { AppError, invalid, unauthorized } from '#platform/errors.ts'
import { readApiKey } from '#platform/http/authenticate.ts'
import { acceptsBody } from '#platform/http/body.ts'
import { dataBody } from '#platform/http/envelope.ts'
import { measureJson, parseJson } from '#platform/http/json.ts'
import { clientIpOf, requestContext } from '#platform/http/request-context.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'
import type { Config } from '#platform/settings/config.ts'
import { type Millis, minutes, seconds } from '#platform/units.ts'

/** The action has two emails when both addresses must agree; any other has one. */
const EMAIL_CHANGE = 'email_change'
/** What Supabase sends without further settings; it adds notices, such as `password_changed_notification`. */
const USUAL_ACTIONS = ['signup', 'invite', 'magiclink', 'recovery', EMAIL_CHANGE, 'reauthentication'] as const

/** Where Supabase serves its authentication, when it gives the bare host. */
const AUTH_PATH = '/auth/v1'
/** Text fields of `email_data` that a template gets as they are; missing ones are empty. */
const TEXT_FIELDS = ['redirect_to', 'site_url', 'old_email', 'old_phone', 'provider', 'factor_type'] as const

const toTemplateAlias = (action: string): string => `supabase-${action.replaceAll('_', '-')}`

interface Delivery {
  readonly to: string
  /** The code that the recipient may type; empty for a notice. */
  readonly token: string
  /** What the link carries in place of the code; empty for a notice. */
  readonly tokenHash: string
}

/** The send requests of a payload, not checked yet. */
function translatePayload(payload: unknown, from: string | undefined): Record<string, unknown>[] {
  const user = readObject(payload, 'user')
  const data = readObject(payload, 'email_data')
  const action = readText(data, 'email_action_type')
  if (!/^[a-z_]{1,60}$/.test(action))
    throw invalid('email_data.email_action_type', 'email_data.email_action_type must be an action such as "signup".')
  return listDeliveries(action, user, data).map(({ to, token, tokenHash }) => {
    if (to === '') throw invalid('user.email', `The user has no address to which "${action}" can be sent.`)
    return {
      from,
      to,
      template_alias: toTemplateAlias(action),
      locale: findLocale(user['user_metadata']),
      template_data: {
        ...Object.fromEntries(TEXT_FIELDS.map((name) => [name, readText(data, name)])),
        action,
        token,
        token_hash: tokenHash,
        confirmation_url: createConfirmationUrl(action, tokenHash, data),
        email: readText(user, 'email'),
        new_email: readText(user, 'new_email'),
        user_metadata: user['user_metadata'] ?? {},
      },
      tags: ['supabase', action],
      // A link that signs a person in passes no other host.
      tracking: false,
    }
  })
}

/** The locale that the application stored with the user; undefined for none, and for what is no language tag. */
function findLocale(metadata: unknown): string | undefined {
  const locale = isJsonObject(metadata) ? metadata['locale'] : undefined
  return typeof locale === 'string' && locale !== '' ? canonicaliseLocale(locale) : undefined
}

function listDeliveries(action: string, user: JsonObject, data: JsonObject): readonly Delivery[] {
  const [email, newEmail, oldEmail] = [
    readText(user, 'email'),
    readText(user, 'new_email'),
    readText(data, 'old_email'),
  ]
  const [token, tokenNew] = [readText(data, 'token'), readText(data, 'token_new')]
  const [tokenHash, tokenHashNew] = [readText(data, 'token_hash'), readText(data, 'token_hash_new')]
  // By an old mistake that Supabase keeps, the hash of `token` is `token_hash_new`, and that of `token_new` `token_hash`.
  if (action === EMAIL_CHANGE && tokenHash !== '' && tokenHashNew !== '')
    return [
      { to: email, token, tokenHash: tokenHashNew },
      { to: newEmail, token: tokenNew, tokenHash },
    ]
  if (action === EMAIL_CHANGE) return [{ to: newEmail || email, token: token || tokenNew, tokenHash }]
  // The new address has just been confirmed; its former owner must hear of it.
  if (action === 'email_changed_notification') return [{ to: oldEmail || email, token, tokenHash }]
  return [{ to: email, token, tokenHash }]
}

/** The link that confirms the action at Supabase; empty for a notice, and for a code without link. */
function createConfirmationUrl(action: string, tokenHash: string, data: JsonObject): string {
  const url = URL.parse(readText(data, 'site_url'))
  if (url === null || !/^https?:$/.test(url.protocol) || tokenHash === '') return ''
  const path = trimTrailingSlashes(url.pathname)
  url.pathname = `${path === '' ? AUTH_PATH : path}/verify`
  url.search = new URLSearchParams({
    token: tokenHash,
    type: action,
    redirect_to: readText(data, 'redirect_to'),
  }).toString()
  return url.href
}

function readObject(payload: unknown, name: string): JsonObject {
  const value = isJsonObject(payload) ? payload[name] : undefined
  if (!isJsonObject(value))
    throw invalid(name, `The body must be that of Supabase's send-email hook: ${name} must be an object.`)
  return value
}

/** Empty for a missing field. */
function readText(object: JsonObject, name: string): string {
  const value = object[name] ?? ''
  if (typeof value !== 'string') throw invalid(name, `${name} must be a string.`)
  return value
}

const HOOK_PATH = '/hooks/supabase'
/** Maximum difference between the time of a signature and ours. */
const TOLERANCE_MS = minutes(5)
/** Supabase separates signatures by a comma and a space, the standard by a space. */
const SIGNATURE = /v1,([A-Za-z0-9+/]{43}=)/g

/** The secret of a key's hook, 32 bytes: derived, so that it is stored nowhere. */
const deriveSecret = (subkey: Uint8Array, keyId: string): Uint8Array => hmacSha256(subkey, keyId)

/** The secret in the form that Supabase takes. */
export const formatSecret = (keys: KeyRing, keyId: string): string =>
  `v1,whsec_${Buffer.from(deriveSecret(keys.subkey('supabase-hook'), keyId)).toString('base64')}`

const createHookUrl = ({ publicUrl }: Pick<Config, 'publicUrl'>, keyId: string, from: string): string =>
  `${trimTrailingSlashes(publicUrl)}${HOOK_PATH}/${keyId}?${new URLSearchParams({ from })}`

/** Whether one of the signatures was made with the secret of the key's hook, within five minutes of now. */
export function isSigned(keys: KeyRing, keyId: string, body: Uint8Array, headers: Headers, now: Millis): boolean {
  const timestamp = headers.get('webhook-timestamp') ?? ''
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now - seconds(Number(timestamp))) > TOLERANCE_MS) return false
  const signed = Buffer.concat([Buffer.from(`${headers.get('webhook-id') ?? ''}.${timestamp}.`), body])
  const expected = keys.subkeys('supabase-hook').map((subkey) => hmacSha256(deriveSecret(subkey, keyId), signed))
  const signatures = (headers.get('webhook-signature') ?? '').matchAll(SIGNATURE)
  return [...signatures].some(([, signature = '']) =>
    expected.some((mac) => equalBytes(Buffer.from(signature, 'base64'), mac)),
  )
}

export interface SupabaseRouteOptions {
  readonly authenticator: Authenticator
  readonly takeRate: TakeRate
}

const FromQuery = Type.Object({ from: Type.Optional(Type.String({ maxLength: 998 })) })

export const supabaseRoutes = (app: App, options: SupabaseRouteOptions) =>
  new Elysia({ prefix: HOOK_PATH })
    .post(
      '/:key',
      async ({ params, query, body, request }) => {
        const octets = body instanceof Uint8Array ? body : new Uint8Array()
        const actor = requireSigner(app, options, params.key, octets, request)
        const context = requestContext(request)
        if (context) context.actor = actor
        requireScope(actor, 'emails:send', 'for this hook')
        const text = Buffer.from(octets).toString('utf8')
        measureJson(text)
        await sendAll(
          app,
          actor,
          options.takeRate,
          translatePayload(parseJson(text), query.from),
          sha256(octets).toHex(),
        )
        return {}
      },
      { query: FromQuery, detail: { hide: true, ...acceptsBody('small-bytes') } },
    )
    .get(
      '/',
      ({ query, request }) => {
        const actor = options.authenticator.authenticate(readApiKey(request.headers), () => clientIpOf(request))
        if (!actor) throw unauthorized()
        requireScope(actor, 'emails:send', 'for this hook')
        return dataBody(describeHook(app, actor, query.from))
      },
      { query: FromQuery, detail: { hide: true } },
    )

/** The actor of the key whose hook is called. Throws 401, alike for an unknown key and a wrong signature. */
function requireSigner(
  app: App,
  { authenticator }: SupabaseRouteOptions,
  key: string,
  body: Uint8Array,
  request: Request,
): Actor {
  const uuid = parseUuid(key)
  if (!uuid || !isSigned(app.keys, formatUuid(uuid), body, request.headers, app.clock.now()))
    throw createSignatureError()
  const actor = authenticator.authenticateId(key, () => clientIpOf(request))
  if (!actor) throw createSignatureError()
  return actor
}

const createSignatureError = (): AppError =>
  new AppError(
    401,
    'invalid_signature',
    `The request is not signed with the secret of this URL, is more than five minutes old, or the API key of the URL was deleted; GET ${HOOK_PATH} with a key returns URL and secret.`,
  )

/** Sends every email of a request. When one is refused, a repeated request sends only those that are missing. */
async function sendAll(
  app: App,
  actor: Actor,
  takeRate: TakeRate,
  requests: readonly Record<string, unknown>[],
  bodyHash: string,
): Promise<void> {
  const checked = requests.map(requireSendRequest)
  for (const [index, request] of checked.entries()) {
    const idempotency = createIdempotency('idempotency_key', `supabase-${index}-${bodyHash}`, request)
    await acceptTranslated(app, actor, { idempotency, translate: () => request }, () => takeRate(actor))
  }
}

function describeHook(app: App, { accountId, id }: Actor, from: string | undefined) {
  if (!from)
    throw invalid('from', 'Add the sender of the emails to the URL, such as ?from=Ada%20%3Cada%40example.com%3E')
  const aliases = USUAL_ACTIONS.map(toTemplateAlias)
  return {
    url: createHookUrl(app.config, id, from),
    secret: formatSecret(app.keys, id),
    missing_templates: aliases.filter((alias) => !hasTemplate(app.db, accountId, alias)),
  }
}
