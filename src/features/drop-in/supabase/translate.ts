/**
 * @module Turns a request of Supabase's send-email hook into send requests: recipients, template and its values. Pure;
 * throws AppError 422 with the field.
 */
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { invalid } from '#platform/errors.ts'
import { isJsonObject, type JsonObject } from '#platform/json-object.ts'

/** The action has two emails when both addresses must agree; any other has one. */
const EMAIL_CHANGE = 'email_change'
/** What Supabase sends without further settings; it adds notices, such as `password_changed_notification`. */
export const USUAL_ACTIONS = ['signup', 'invite', 'magiclink', 'recovery', EMAIL_CHANGE, 'reauthentication'] as const

/** Where Supabase serves its authentication, when it gives the bare host. */
const AUTH_PATH = '/auth/v1'
/** Text fields of `email_data` that a template gets as they are; missing ones are empty. */
const TEXT_FIELDS = ['redirect_to', 'site_url', 'old_email', 'old_phone', 'provider', 'factor_type'] as const

export const toTemplateAlias = (action: string): string => `supabase-${action.replaceAll('_', '-')}`

interface Delivery {
  readonly to: string
  /** The code that the recipient may type; empty for a notice. */
  readonly token: string
  /** What the link carries in place of the code; empty for a notice. */
  readonly tokenHash: string
}

/** The send requests of a payload, not checked yet. */
export function translatePayload(payload: unknown, from: string | undefined): Record<string, unknown>[] {
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
