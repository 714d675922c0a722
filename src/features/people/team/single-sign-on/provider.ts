/**
 * @module The identity provider of `oidcIssuer`: OpenID Connect's code flow with PKCE, state and nonce. `openid-client`
 * makes the requests and the checks; every failure is an AppError with a sentence for the sign-in page, its cause is in
 * the log. Nothing is requested before somebody signs in.
 */
import type { Configuration, IDToken, UserInfoResponse } from 'openid-client'
import type { App } from '#features/core/app/app.ts'
import { AppError } from '#platform/errors.ts'
import { createBoundedFetch } from '#platform/net/bounded-fetch.ts'
import { readCertificateAuthorities } from '#platform/net/certificate-authorities.ts'
import { hours, KiB, minutes, seconds } from '#platform/units.ts'
import { CALLBACK_PATH, formatLink } from '../links.ts'
import { readClaimValues } from './grants.ts'

/** Of each request; a sign-in makes at most four. */
const REQUEST_TIMEOUT_MS = seconds(5)
const MAX_RESPONSE_BYTES = 256 * KiB
const METADATA_TTL_MS = hours(1)
/** How old a sign-in at the provider may be that confirms who is there. */
const MAX_FRESH_SECONDS = minutes(10) / seconds(1)
/** Who waits for the provider at the same time; others are told to try again. */
const MAX_CONCURRENT = 20
const MAX_SUBJECT_LENGTH = 255

/** What only the browser that begins carries to the callback. */
export interface Checks {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
  /** Whether the person has to prove again who they are. */
  readonly isFresh: boolean
}

/** Who somebody is, by the provider's word. */
export interface ProvidedIdentity {
  readonly issuer: string
  readonly subject: string
  /** Undefined unless the provider says that it is verified. */
  readonly email: string | undefined
  readonly name: string | undefined
  /** Values of the claim that gives roles. */
  readonly roles: readonly string[]
  readonly isFresh: boolean
}

type Claims = Readonly<Partial<IDToken & UserInfoResponse>>

export function createProvider(app: Pick<App, 'clock' | 'config' | 'log'>) {
  const { clock, config, log } = app
  const { oidcIssuer, oidcClientId, oidcClientSecret, oidcName, oidcRoleClaim, oidcScopes } = config
  const request = createBoundedFetch({
    clock,
    ca: readCertificateAuthorities(config),
    timeoutMs: REQUEST_TIMEOUT_MS,
    maxBytes: MAX_RESPONSE_BYTES,
  })
  let metadata: { readonly found: Configuration; readonly readAt: number } | undefined
  let discovering: Promise<Configuration> | undefined
  let waiting = 0

  const discover = async (): Promise<Configuration> => {
    const oidc = await import('openid-client')
    const authenticate: ReturnType<typeof oidc.None> = (server, ...rest) => {
      const methods = server.token_endpoint_auth_methods_supported
      const isBasic = methods === undefined || methods.includes('client_secret_basic')
      if (oidcClientSecret === '') return oidc.None()(server, ...rest)
      return (isBasic ? oidc.ClientSecretBasic : oidc.ClientSecretPost)(oidcClientSecret)(server, ...rest)
    }
    const isPlain = oidcIssuer.startsWith('http:')
    const found = await oidc.discovery(new URL(oidcIssuer), oidcClientId, undefined, authenticate, {
      [oidc.customFetch]: async (url, { body, ...init }) => {
        const { status, headers, text } = await request(url, { ...init, ...(body != null && { body: String(body) }) })
        return new Response(text === '' ? null : text, { status, headers })
      },
      execute: [oidc.enableNonRepudiationChecks, ...(isPlain ? [oidc.allowInsecureRequests] : [])],
    })
    // Such as the one that stands for all tenants of a cloud, whose administrators give each other's roles.
    const { issuer, authorization_endpoint: page } = found.serverMetadata()
    if (page === undefined) throw new Error('the metadata name no authorization endpoint')
    if (URL.parse(issuer)?.href !== new URL(oidcIssuer).href) throw new Error(`the issuer of the metadata is ${issuer}`)
    return found
  }
  const readMetadata = async (): Promise<Configuration> => {
    if (metadata && clock.monotonicMs() - metadata.readAt < METADATA_TTL_MS) return metadata.found
    discovering ??= discover().finally(() => {
      discovering = undefined
    })
    const found = await discovering.catch((error: unknown) => {
      log.warn({ err: error }, 'identity provider not usable: its metadata cannot be read')
      if (metadata) return metadata.found
      throw new AppError(503, 'provider_unavailable', `${oidcName} cannot be reached; try again in a minute.`)
    })
    metadata = { found, readAt: clock.monotonicMs() }
    return found
  }

  const redirectUri = formatLink(config, CALLBACK_PATH)
  const exchange = async (query: string, { state, nonce, verifier, isFresh }: Checks): Promise<Claims> => {
    const oidc = await import('openid-client')
    const server = await readMetadata()
    const tokens = await oidc.authorizationCodeGrant(server, new URL(`${redirectUri}${query}`), {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      idTokenExpected: true,
      ...(isFresh && { maxAge: MAX_FRESH_SECONDS }),
    })
    const claims = tokens.claims()
    if (!claims) throw new Error('no ID token')
    const hasAddress = claims['email'] !== undefined && findVerification(claims) !== undefined
    const isComplete = hasAddress && (oidcRoleClaim === '' || readClaimValues(claims, oidcRoleClaim).length > 0)
    if (isComplete || server.serverMetadata().userinfo_endpoint === undefined) return claims
    const said = await oidc.fetchUserInfo(server, tokens.access_token, claims.sub)
    // What one source says of an address is no word about the address of the other.
    const { email, email_verified, xms_edov }: Record<string, unknown> = hasAddress ? claims : said
    return { ...claims, ...said, ...({ email, email_verified, xms_edov } as Claims) }
  }

  return {
    /** Where to send a browser, and what it carries to the callback. Throws 503 when the provider is down. */
    async begin(isFresh: boolean): Promise<{ readonly url: string; readonly checks: Checks }> {
      const oidc = await import('openid-client')
      const server = await readMetadata()
      const [state, nonce, verifier] = [oidc.randomState(), oidc.randomNonce(), oidc.randomPKCECodeVerifier()]
      const url = oidc.buildAuthorizationUrl(server, {
        redirect_uri: redirectUri,
        scope: oidcScopes.join(' '),
        state,
        nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...(isFresh && { prompt: 'login', max_age: '0' }),
      })
      return { url: url.href, checks: { state, nonce, verifier, isFresh } }
    },
    /**
     * Who came back. Throws 401 when what the provider or the browser sent cannot be trusted, 503 when the provider is
     * down or too many people wait for it.
     * @param query of the callback
     */
    async finish(query: string, checks: Checks): Promise<ProvidedIdentity> {
      if (waiting >= MAX_CONCURRENT)
        throw new AppError(503, 'busy', 'Too many people sign in at the moment; try again in a minute.')
      waiting++
      try {
        const claims = await exchange(query, checks)
        const { sub, name } = claims
        if (sub === undefined || sub.length > MAX_SUBJECT_LENGTH) throw new Error('the subject is too long')
        return {
          issuer: oidcIssuer,
          subject: sub,
          email: findVerifiedEmail(claims),
          name: typeof name === 'string' ? name : undefined,
          roles: oidcRoleClaim === '' ? [] : readClaimValues(claims, oidcRoleClaim),
          isFresh: checks.isFresh,
        }
      } catch (error) {
        throw error instanceof AppError ? error : toAppError(error, oidcName, log)
      } finally {
        waiting--
      }
    },
  }
}

/** `xms_edov` is what Microsoft Entra says. */
const findVerification = (claims: Claims): unknown => claims['email_verified'] ?? claims['xms_edov']

/** Some providers send texts. */
function findVerifiedEmail(claims: Claims): string | undefined {
  const { email } = claims
  const said = findVerification(claims)
  return typeof email === 'string' && [true, 'true', 1, '1'].some((yes) => yes === said) ? email : undefined
}

/** Of `openid-client`; its other codes are about what the provider says. */
const TRANSPORT_CODES = /^(?:OAUTH_TIMEOUT|OAUTH_ABORT|OAUTH_RESPONSE_IS_NOT_CONFORM|OAUTH_RESPONSE_IS_NOT_JSON)$/

function toAppError(error: unknown, name: string, log: App['log']): AppError {
  const { code, error: reason } = error as { readonly code?: string; readonly error?: string }
  log.warn({ err: error, cause: error instanceof Error ? error.cause : undefined }, 'single sign-on failed')
  if (code === 'OAUTH_AUTHORIZATION_RESPONSE_ERROR')
    return new AppError(401, 'sign_on_refused', `${name} did not let you in, or you went back.`)
  if (reason === 'invalid_grant') return stale()
  if (code?.startsWith('OAUTH_') !== true || TRANSPORT_CODES.test(code))
    return new AppError(503, 'provider_unavailable', `${name} does not answer as it should; try again in a minute.`)
  return new AppError(
    401,
    'sign_on_invalid',
    `The reply of ${name} cannot be trusted, so you were not signed in. The log of this server says why.`,
  )
}

/** For a callback that this browser did not ask for, or asked for too long ago, or has used. */
export const stale = (): AppError =>
  new AppError(
    401,
    'sign_on_stale',
    'This sign-in was begun in another browser or tab, took more than ten minutes, or was already used. Begin again.',
  )
