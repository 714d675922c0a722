/** @module The first command to try a new API key with. */
import { quote } from '../../parts/format.ts'
import { ADMIN_SCOPE } from '../../parts/scopes.ts'

/** What a key may read, and where; the first that it may read is used. */
const READS: readonly (readonly [scope: string, path: string])[] = [
  ['account:read', '/v1/account'],
  ['emails:read', '/v1/emails'],
  ['domains:read', '/v1/domains'],
  ['templates:read', '/v1/templates'],
  ['webhooks:read', '/v1/webhooks'],
  ['suppressions:read', '/v1/suppressions'],
  ['contacts:read', '/v1/contact-lists'],
  ['inbound:read', '/v1/inbound'],
  ['analytics:read', '/v1/analytics/overview'],
  ['mailboxes:read', '/v1/agent-mailboxes'],
  ['sub_accounts:manage', '/v1/accounts'],
]

interface ExampleOptions {
  readonly origin: string
  readonly key: string
  readonly scopes: readonly string[]
  readonly domain: string | undefined
  readonly to: string
}

/** A curl command that the key allows; undefined when its scopes only change what is there. */
export function toExampleCommand({ origin, key, scopes, domain, to }: ExampleOptions): string | undefined {
  const authorization = `-H 'Authorization: Bearer ${key}'`
  const has = (scope: string): boolean => scopes.includes(scope) || scopes.includes(ADMIN_SCOPE)
  if (has('emails:send')) {
    const from = `hello@${domain ?? 'your-domain.example'}`
    const body = JSON.stringify({ from, to, subject: 'Hello', text_body: 'It works.' })
    return [`curl ${origin}/v1/emails`, authorization, `-H 'Content-Type: application/json'`, `-d ${quote(body)}`].join(
      ' \\\n  ',
    )
  }
  const read = READS.find(([scope]) => has(scope))
  return read && `curl ${origin}${read[1]} \\\n  ${authorization}`
}
