/**
 * @module The programs that ask for access: public clients of OAuth, which anybody may make, so nothing of them is stored.
 * The id of a client is its sealed metadata (RFC 7591), or an https URL where its metadata is (Client ID Metadata
 * Document). Decides to which addresses codes may be sent.
 */
import type { App } from '#features/core/app/app.ts'
import { openSealed, sealJson } from '#platform/crypto/sealed-token.ts'
import { AppError } from '#platform/errors.ts'
import { isJsonObject, parseJsonObject } from '#platform/json-object.ts'
import { KiB, seconds } from '#platform/units.ts'
import { isLoopbackName } from '#protocols/dns/special-addresses.ts'

export interface Client {
  /** What it calls itself: nobody has verified it. */
  readonly name: string
  readonly redirectUris: readonly string[]
}

const MAX_NAME_LENGTH = 60
/** Of all redirect URIs together: the id of a client, which has them, is part of URLs. */
const MAX_URIS_LENGTH = 400
const CONTEXT = 'oauth-client'
const LIMITS = { timeoutMs: seconds(5), maxResponseBytes: 10 * KiB, headers: { accept: 'application/json' } }
/** RFC 8252 §7.1 wants a dot in the schemes of apps; these editors have none. */
const APP_SCHEME = /^(?:cursor|vscode|vscode-insiders|windsurf|zed|[a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+):$/

/** Whether programs of this device listen at a URL, as while their user signs in (RFC 8252 §7.3). */
export const isOnLoopback = ({ protocol, hostname }: URL): boolean => protocol === 'http:' && isLoopbackName(hostname)

function isRedirectUri(text: unknown): text is string {
  const url = typeof text === 'string' && /^[!-~]+$/.test(text) && !/[#\\]/.test(text) ? URL.parse(text) : null
  // Without the slashes, a browser takes it for a path of ours.
  if (url?.username !== '' || url.password !== '' || /^https?:(?!\/\/[^/])/i.test(String(text))) return false
  return url.protocol === 'https:' || isOnLoopback(url) || APP_SCHEME.test(url.protocol)
}

/** Reads the metadata of a client. Throws 400 `invalid_redirect_uri`. */
export function parseClient(metadata: unknown): Client {
  const { redirect_uris: uris, client_name: name } = isJsonObject(metadata) ? metadata : {}
  if (
    !Array.isArray(uris) ||
    uris.length === 0 ||
    !uris.every(isRedirectUri) ||
    JSON.stringify(uris).length > MAX_URIS_LENGTH
  )
    throw new AppError(
      400,
      'invalid_redirect_uri',
      `redirect_uris must be URLs without fragment, with at most ${MAX_URIS_LENGTH} characters together: https, http of this device (127.0.0.1, [::1], localhost), or the scheme of an app, such as com.example.app.`,
    )
  // Nothing that is invisible or turns the text around.
  const shown = typeof name === 'string' ? name.replace(/[\p{C}\p{Z}\p{DI}\u2800]+/gu, ' ').trim() : ''
  return { name: [...shown].slice(0, MAX_NAME_LENGTH).join('') || 'A program without a name', redirectUris: uris }
}

/** The id of a client that registers itself. */
export const createClientId = ({ keys }: App, client: Client): string => sealJson(keys, client, CONTEXT)

/** Finds a client by its id. Throws 400 when there is none. */
export async function findClient({ fetch, keys }: App, id: string): Promise<Client> {
  const registered = openSealed<Client>(keys, id, CONTEXT)
  if (registered) return registered
  const outcome = await fetch.get(id, LIMITS)
  const metadata = outcome.kind === 'response' && outcome.status === 200 ? parseJsonObject(outcome.body) : undefined
  if (metadata?.['client_id'] === id) return parseClient(metadata)
  const reason = outcome.kind === 'failed' ? outcome.reason : 'There is no JSON that names it.'
  throw new AppError(400, 'invalid_client', `The program is not known by its client_id; register it again. ${reason}`)
}

/** Without the port of a program on this device, which differs each time. */
const toComparable = (uri: string): string =>
  isOnLoopback(new URL(uri)) ? Object.assign(new URL(uri), { port: '' }).href : uri

/** Whether a client may have its codes at an address, compared as text (OAuth 2.1 §2.3.1). */
export const isRedirectOf = ({ redirectUris }: Client, wanted: string): boolean =>
  isRedirectUri(wanted) && redirectUris.some((uri) => toComparable(uri) === toComparable(wanted))
