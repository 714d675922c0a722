/** @module Commands to copy that call `/v1`. */
import { quote } from './format.ts'

/** Stands for an API key, which is shown only once. */
export const API_KEY_HINT = 'YOUR_API_KEY'

/** A request to `/v1` by curl. */
export const toCurl = (path: string, body: Readonly<Record<string, unknown>>, key = API_KEY_HINT): string =>
  [
    `curl ${location.origin}${path}`,
    `  -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json'`,
    `  -d ${quote(JSON.stringify(body))}`,
  ].join(' \\\n')

/** Sends an email. @param domain of the sender; undefined: the account has none that is verified */
export const toSendCommand = (domain = 'your-domain.example', to = 'you@example.com', key?: string): string =>
  toCurl('/v1/emails', { from: `hello@${domain}`, to, subject: 'Hello', text_body: 'It works.' }, key)
