/**
 * @module OAuth 2.1 for programs that use /mcp: metadata (RFC 9728, RFC 8414), registration (RFC 7591), tokens and their
 * revocation (RFC 7009), open to pages of any origin; /oauth/authorize, to which a program sends a browser, and
 * /oauth/consent, where the user decides. In between, the request is in a sealed cookie, so every way to sign in comes
 * back to it, and nothing is stored.
 */
import { Elysia } from 'elysia'
import type { Actor, App } from '#features/core/app/app.ts'
import { RESTRICTED_SCOPES } from '#features/setup/api-keys/scopes.ts'
import { AppError } from '#platform/errors.ts'
import { html, ownFormResponse, PAGE_HEADERS } from '#platform/http/html.ts'
import { createNetworkLimiter, requireTaken } from '#platform/http/rate-limit.ts'
import { clientIpOf } from '#platform/http/request-context.ts'
import { formatUuid } from '#platform/ids.ts'
import { minutes } from '#platform/units.ts'
import type { AuthContext } from '../auth-context.ts'
import { createFlowCookie } from '../flow-cookie.ts'
import { createFormPages, type Form, hiddenFormRoute, hiddenRoute, readField, redirectTo } from '../form-pages.ts'
import { CONSENT_PATH, formatLink, toLoginPath } from '../links.ts'
import { requireActorUser } from '../login.ts'
import { hiddenField, problemHtml, userPage } from '../page.ts'
import { scopesOf } from '../roles.ts'
import { getCsrfToken, isValidCsrfToken, requireSessionId } from '../sessions.ts'
import { listMemberships } from '../users.ts'
import { createClientId, findClient, isOnLoopback, isRedirectOf, parseClient } from './clients.ts'
import { bindCode, createCode, exchangeCode, refreshTokens, revokeToken } from './grants.ts'
import texts from './scopes.json' with { type: 'json' }

/** Of a network: hosted assistants ask for all their users from few addresses. */
const RATE = { burst: 200, ratePerSecond: 4 }
const HEADERS = { 'access-control-allow-origin': '*', 'cache-control': 'no-store' }
const PREFLIGHT = { ...HEADERS, 'access-control-allow-methods': 'GET, POST', 'access-control-allow-headers': '*' }
const RESOURCE_METADATA = '/.well-known/oauth-protected-resource'
const SERVER_METADATA = '/.well-known/oauth-authorization-server'
const CHALLENGE = /^[\w-]{43}$/
/** RFC 6749 appendix A.5; it is part of the cookie. */
const STATE = /^[ -~]{0,1000}$/

/** The scopes that tools of /mcp need, with their words on the page. */
const LABELS: Readonly<Record<string, string>> = { ...texts.read, ...texts.change }
export const OFFERED_SCOPES: readonly string[] = Object.keys(LABELS)

/** A request of a program, whose client and redirect URI are right. */
interface Flow {
  readonly name: string
  readonly redirectUri: string
  readonly state: string
  /** What it asks for. */
  readonly scopes: readonly string[]
  readonly binding: string
}

/** Where programs learn how to get a token for /mcp; undefined: tokens need https, except on this machine. */
export const findResourceMetadata = (config: App['config']): string | undefined =>
  config.publicUrl.startsWith('https:') || isOnLoopback(new URL(config.publicUrl))
    ? formatLink(config, `${RESOURCE_METADATA}/mcp`)
    : undefined

const stale = (): AppError =>
  new AppError(400, 'stale', 'This was begun elsewhere or too long ago, or is answered. Begin again in the program.')

/** Never sent on to the program: anybody can register an address, and no link to this service may lead there. */
function requireRight(isRight: boolean, problem: string): void {
  if (!isRight) throw new AppError(400, 'invalid_request', `The request of the program is wrong: its ${problem}.`)
}

const toPlace = (uri: URL): string =>
  uri.protocol === 'https:' ? uri.host : `a program on this device${isOnLoopback(uri) ? '' : ` (${uri.protocol})`}`

export function oauthRoutes(app: App, auth: AuthContext) {
  const { clock, config, db } = app
  const routes = new Elysia()
  if (findResourceMetadata(config) === undefined) return routes
  const link = (path: string) => formatLink(config, path)
  const limiter = createNetworkLimiter(clock, RATE)
  const requireSeldom = (request: Request) =>
    requireTaken(limiter.take(clientIpOf(request)), 'Too many requests; wait before you try again.')
  /** Without a resource, ours is meant, since there is no other (RFC 8707). */
  const isOurs = (resource: string): boolean => resource === '' || resource.replace(/\/$/, '') === link('/mcp')

  const answer =
    (work: (field: Form['field'], body: unknown) => unknown, status = 200) =>
    async ({ request, body }: { readonly request: Request; readonly body?: unknown }): Promise<Response> => {
      try {
        auth.requireOwnHost(request)
        requireSeldom(request)
        const json = (await work((name) => readField(body, name), body)) ?? {}
        return Response.json(json, { status, headers: HEADERS })
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        const problem = { error: error.code, error_description: error.message }
        return Response.json(problem, { status: error.status, headers: { ...HEADERS, ...error.headers } })
      }
    }
  // One document for resource and server: programs ignore what they do not know.
  const metadata = answer(() => ({
    resource: link('/mcp'),
    authorization_servers: [link('')],
    scopes_supported: OFFERED_SCOPES,
    issuer: link(''),
    authorization_endpoint: link('/oauth/authorize'),
    token_endpoint: link('/oauth/token'),
    registration_endpoint: link('/oauth/register'),
    revocation_endpoint: link('/oauth/revoke'),
    response_types_supported: ['code'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_methods_supported: ['none'],
    revocation_endpoint_auth_methods_supported: ['none'],
    code_challenge_methods_supported: ['S256'],
    client_id_metadata_document_supported: true,
    authorization_response_iss_parameter_supported: true,
  }))
  const register = answer((_, body) => {
    const client = parseClient(body)
    const { name: client_name, redirectUris: redirect_uris } = client
    return { client_id: createClientId(app, client), client_name, redirect_uris, token_endpoint_auth_method: 'none' }
  }, 201)
  const token = answer((field) => {
    if (!isOurs(field('resource'))) throw new AppError(400, 'invalid_target', `resource must be ${link('/mcp')}.`)
    const grantType = field('grant_type')
    if (grantType === 'refresh_token') return refreshTokens(app, field('refresh_token'), field('client_id'))
    if (grantType === 'authorization_code') return exchangeCode(app, field)
    throw new AppError(400, 'unsupported_grant_type', 'grant_type must be authorization_code or refresh_token.')
  })
  const revoke = answer((field) => revokeToken(app, field('token')))
  const preflight = () => new Response(null, { status: 204, headers: PREFLIGHT })
  for (const [path, run] of Object.entries({ register, token, revoke }))
    routes.post(`/oauth/${path}`, run, hiddenFormRoute).options(`/oauth/${path}`, preflight, hiddenRoute)
  // Also with the path of the resource or the issuer behind it.
  for (const path of [RESOURCE_METADATA, SERVER_METADATA].flatMap((one) => [one, `${one}/*`]))
    routes.get(path, metadata, hiddenRoute).options(path, preflight, hiddenRoute)

  const cookie = createFlowCookie<Flow>(app, 'tassis_oauth', minutes(15))
  const { act, show } = createFormPages(auth)
  /** Sends the browser back to the program (RFC 9207: with the issuer). */
  const goBack = ({ redirectUri, state }: Flow, facts: object): Response => {
    const query = new URLSearchParams({ ...facts, ...(state !== '' && { state }), iss: link('') })
    return redirectTo(`${redirectUri}${redirectUri.includes('?') ? '&' : '?'}${query}`, cookie.end)
  }
  /** The account that the user chose, or that of the session; and the scopes that its role can give. */
  const findChoice = (actor: Actor, { scopes }: Flow, chosen: string) => {
    const user = requireActorUser(app, actor)
    const accounts = listMemberships(db, user.id)
    const account = accounts.find(({ uuid }) => formatUuid(uuid) === (chosen || actor.accountUuid))
    if (!account) throw stale()
    return { user, accounts, account, offered: scopes.filter((scope) => scopesOf(account.role).has(scope)) }
  }
  const showConsent = ({ field }: Form, actor: Actor, flow: Flow, message?: string): Response => {
    const { user, accounts, account, offered } = findChoice(actor, flow, field('account'))
    const uri = new URL(flow.redirectUri)
    const boxes = (labels: Readonly<Record<string, string>>, isTicked: boolean) =>
      Object.entries(labels).map(
        ([scope, label]) =>
          offered.includes(scope) &&
          html`<label class="box"><input type="checkbox" name="${scope}" value="yes"${isTicked && html` checked`}> ${label}</label>`,
      )
    const others = accounts.filter((other) => other !== account)
    const problem = offered.length > 0 ? message : 'Your role here allows nothing that the program can be given.'
    const page = userPage(
      `Connect ${flow.name}?`,
      html`<p><strong><bdi>${flow.name}</bdi></strong> asks to use the account <strong>${account.name}</strong> for ${user.email}. The access goes to <strong>${toPlace(uri)}</strong>.</p>
<p class="hint">The program chose its name; nobody has verified it. Go on only if you began this there just now.</p>
${problemHtml({ message: problem })}
${others.length > 0 && html`<p>Another account: ${others.map(({ uuid, name }) => html`<a href="${CONSENT_PATH}?account=${formatUuid(uuid)}">${name}</a> `)}</p>`}
<form method="post" action="${CONSENT_PATH}">
${hiddenField('csrf_token', getCsrfToken(app, requireSessionId(actor)))}
${hiddenField('request', flow.binding)}
${hiddenField('account', formatUuid(account.uuid))}
<fieldset><legend>It may read</legend>${boxes(texts.read, true)}</fieldset>
<fieldset><legend>It may also</legend>${boxes(texts.change, false)}</fieldset>
${offered.includes('emails:send') && html`<fieldset><legend>When it sends emails</legend><label class="box"><input type="checkbox" name="drafts" value="yes" checked> They wait until a person releases them</label></fieldset>`}
<button name="decision" value="allow">Connect</button>
<button class="quiet" name="decision" value="deny">Cancel</button>
</form>
<p class="beside">It is listed under API keys, where an administrator can end it at any time.</p>`,
    )
    // Browsers apply `form-action` to all that the answer to a form leads to: any site, or an app.
    const targets = `form-action 'self' https: http: ${uri.protocol}`
    return ownFormResponse(page, message === undefined ? 200 : 422, {
      'content-security-policy': PAGE_HEADERS['content-security-policy'].replace("form-action 'self'", targets),
    })
  }
  const authorize = show(async ({ request, field }) => {
    requireSeldom(request)
    const [clientId, redirectUri, challenge] = [field('client_id'), field('redirect_uri'), field('code_challenge')]
    const client = await findClient(app, clientId)
    const state = new URL(request.url).searchParams.get('state') ?? ''
    requireRight(isRedirectOf(client, redirectUri), 'redirect_uri is not one that it named before')
    requireRight(STATE.test(state), 'state has more than 1,000 characters, or others than ASCII')
    requireRight(field('response_type') === 'code', 'response_type is not code')
    requireRight(field('code_challenge_method') === 'S256' && CHALLENGE.test(challenge), 'PKCE is missing or not S256')
    requireRight(isOurs(field('resource')), `resource is not ${link('/mcp')}`)
    const asked = field('scope').split(' ')
    const known = OFFERED_SCOPES.filter((scope) => asked.includes(scope))
    const scopes = known.length > 0 ? known : OFFERED_SCOPES
    const binding = bindCode(clientId, redirectUri, challenge)
    const flow: Flow = { name: client.name, redirectUri, state, scopes, binding }
    return redirectTo(CONSENT_PATH, cookie.begin(flow))
  })
  const ask = show((form) => {
    const [flow, actor] = [cookie.read(form.request), auth.findActor(form.request)]
    if (!flow) throw stale()
    return actor ? showConsent(form, actor, flow) : redirectTo(toLoginPath(CONSENT_PATH))
  })
  const decide = act(async (form) => {
    const { request, field } = form
    const [flow, actor] = [cookie.read(request), auth.findActor(request)]
    const isOwn = actor && isValidCsrfToken(app, requireSessionId(actor), field('csrf_token'))
    if (!isOwn || flow?.binding !== field('request')) throw stale()
    const { user, account, offered } = findChoice(actor, flow, field('account'))
    const scopes = offered.filter((scope) => field(scope) !== '')
    if (field('decision') !== 'allow') return goBack(flow, { error: 'access_denied' })
    if (scopes.length === 0) return showConsent(form, actor, flow, 'Tick at least one box, or cancel.')
    const drafts = scopes.includes('emails:send') && field('drafts') !== ''
    const excluded = drafts ? scopes.filter((scope) => !RESTRICTED_SCOPES.includes(scope)) : []
    const names = excluded.map((scope) => LABELS[scope]).join(', ')
    if (names !== '')
      return showConsent(form, actor, flow, `If its emails wait, it cannot also: ${names}. Choose one of the two.`)
    // A second click gets a code of its own, since the browser drops the answer to the first.
    const { name, binding } = flow
    const whose = { accountId: account.accountId, userId: user.id, session: field('csrf_token') }
    return goBack(flow, { code: createCode(app, { name, scopes, drafts, binding, ...whose }) })
  })
  return routes
    .get('/oauth/authorize', authorize, hiddenRoute)
    .get(CONSENT_PATH, ask, hiddenRoute)
    .post(CONSENT_PATH, decide, hiddenFormRoute)
}
