/**
 * @module The hook of an API key: its URL, its secret, and whether a request is signed with that. The secret is derived
 * from the id of the key, so that it is stored nowhere. Standard Webhooks: HMAC-SHA256 over `<id>.<timestamp>.<body>`.
 */
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { equalBytes, hmacSha256, type KeyRing } from '#platform/crypto/crypto.ts'
import type { Config } from '#platform/settings/config.ts'
import type { Millis } from '#platform/time/clock.ts'
import { minutes, seconds } from '#platform/units.ts'

export const HOOK_PATH = '/hooks/supabase'
/** Maximum difference between the time of a signature and ours. */
const TOLERANCE_MS = minutes(5)
/** Supabase separates signatures by a comma and a space, the standard by a space. */
const SIGNATURE = /v1,([A-Za-z0-9+/]{43}=)/g

/** The secret of a key's hook, 32 bytes. */
const deriveSecret = (subkey: Uint8Array, keyId: string): Uint8Array => hmacSha256(subkey, keyId)

/** The secret in the form that Supabase takes. */
export const formatSecret = (keys: KeyRing, keyId: string): string =>
  `v1,whsec_${Buffer.from(deriveSecret(keys.subkey('supabase-hook'), keyId)).toString('base64')}`

export const createHookUrl = ({ publicUrl }: Pick<Config, 'publicUrl'>, keyId: string, from: string): string =>
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
