/** @module Commands to copy that call `/v1`. */

/** Stands for an API key, which is shown only once. */
export const API_KEY_HINT = 'YOUR_API_KEY'

/** A request to `/v1` by curl. */
export const toCurl = (path: string, body: Readonly<Record<string, unknown>>): string =>
  [
    `curl ${location.origin}${path}`,
    `  -H 'Authorization: Bearer ${API_KEY_HINT}' -H 'Content-Type: application/json'`,
    `  -d '${JSON.stringify(body)}'`,
  ].join(' \\\n')

/** Sends an email. @param domain of the sender; undefined: the account has none that is verified */
export const toSendCommand = (domain = 'your-domain.example'): string =>
  toCurl('/v1/emails', { from: `hello@${domain}`, to: 'you@example.com', subject: 'Hello', text_body: 'It works.' })
