/** @module /v1/auth/passkeys, and the confirmation by one: paths, schemas and one call each. */
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { type TProperties, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { App } from '#features/core/app/app.ts'
import { authenticated } from '#features/core/app/http.ts'
import { describeRoute, errorResponses, publicRoute, requiresSession, responseHeaders } from '#platform/http/access.ts'
import { dataBody, onePageBody, toWire } from '#platform/http/envelope.ts'
import { DataBody, PageBody, StrictObject, Text, TimeOrNull, Timestamp, Uuid } from '#platform/http/schemas.ts'
import type { AuthContext } from '../auth-context.ts'
import { PASSWORD_REQUIRED } from '../credentials.ts'
import { ONLY_PROVIDED, requireActorUser } from '../login.ts'
import { SessionState, sessionWire } from '../model.ts'
import { toCookieHeader } from '../sessions.ts'
import { createCeremonies } from './ceremonies.ts'
import { listPasskeys } from './passkeys.ts'

const tags = ['People']

/** Attested keys come with certificates. */
const MAX_PART_LENGTH = 20_000
const Part = (description: string) => Type.String({ maxLength: MAX_PART_LENGTH, description })
const Credential = <Response extends TProperties>(description: string, response: Response) =>
  Type.Object(
    {
      id: Part('Id of the credential, in base64url.'),
      rawId: Part('The same.'),
      type: Part('public-key'),
      response: Type.Object(response, { description: 'What the authenticator says.' }),
    },
    { description },
  )

const NewPasskey = StrictObject({
  name: Type.String({ maxLength: 200, description: 'How the user calls it.' }),
  credential: Credential('What `navigator.credentials.create` made of the options, as JSON.', {
    clientDataJSON: Part('What the browser says, in base64url.'),
    attestationObject: Part('The public key and its attestation, in base64url.'),
    transports: Type.Optional(
      Type.Array(Type.String({ maxLength: 30 }), {
        maxItems: 20,
        description: 'How browsers reach the authenticator.',
      }),
    ),
  }),
})
const UsedPasskey = StrictObject({
  credential: Credential('What `navigator.credentials.get` made of the options, as JSON.', {
    clientDataJSON: Part('What the browser says, in base64url.'),
    authenticatorData: Part('Host, flags and counter, in base64url.'),
    signature: Part('Over both, in base64url.'),
    userHandle: Type.Optional(Part('Whose passkey it is, in base64url.')),
  }),
})
const Options = Type.Object({
  options: Type.Record(Type.String(), Type.Unknown(), { description: 'Options of WebAuthn for the browser, as JSON.' }),
})
const PasskeyRecord = Type.Object({
  id: Uuid({ description: 'Id of the passkey.' }),
  name: Text('How the user calls it.'),
  last_used_at: TimeOrNull('When it was last used; null: never.'),
  created_at: Timestamp({ description: 'When it was added.' }),
})

const LIMITED = { 429: ['rate_limited', 'Too many attempts; wait as long as Retry-After says.'] } as const
const UNAVAILABLE = {
  409: ['passkeys_unavailable', 'TASSIS_PUBLIC_URL is not a URL for which browsers have passkeys.'],
} as const
const FACTORS_REQUIRED = [
  PASSWORD_REQUIRED[0],
  `${PASSWORD_REQUIRED[1]} Or \`second_factor_required\`: the user has a second factor, which this session has not shown.`,
] as const
const NOT_ACCEPTED = {
  401: ['invalid_passkey', 'The passkey is unknown, or its signature is not that of this browser, host and challenge.'],
} as const

export const passkeyRoutes = (app: App, auth: AuthContext) => {
  const ceremonies = createCeremonies(app, auth.attempts)
  const own = (summary: string, description?: string, errors: Parameters<typeof errorResponses>[0] = {}) =>
    describeRoute(summary, requiresSession, description, errorResponses(errors))
  const setsCookie = responseHeaders('Set-Cookie')
  return new Elysia({ prefix: '/v1/auth', tags })
    .post(
      '/passkeys/challenge',
      async ({ request, set }) => {
        auth.requireOwnOrigin(request)
        const { options, cookie } = await ceremonies.beginUsing(auth.findActor(request))
        set.headers['set-cookie'] = cookie
        return dataBody({ options: { ...options } })
      },
      {
        response: DataBody(Options),
        detail: describeRoute(
          'Get a challenge for a passkey',
          publicRoute,
          'For browsers: the response sets a cookie, with which the challenge can be used once within five minutes. For a signed-in user only their own passkeys are named.',
          { ...setsCookie, ...errorResponses(UNAVAILABLE) },
        ),
      },
    )
    .post(
      '/passkeys/login',
      async ({ body, request, set }) => {
        auth.requireOwnOrigin(request)
        const credential = body.credential as unknown as AuthenticationResponseJSON
        const signedIn = await ceremonies.signIn(request, credential, auth.readBrowser(request))
        set.headers['set-cookie'] = toCookieHeader(app, signedIn.token)
        return dataBody(sessionWire(app, signedIn))
      },
      {
        body: UsedPasskey,
        response: DataBody(SessionState),
        detail: describeRoute(
          'Sign in with a passkey',
          publicRoute,
          'In place of the password and a code. The response sets a session cookie, as `POST /v1/auth/login` does.',
          { ...setsCookie, ...errorResponses({ ...NOT_ACCEPTED, 403: ONLY_PROVIDED, ...LIMITED, ...UNAVAILABLE }) },
        ),
      },
    )
    .use(authenticated)
    .get(
      '/passkeys',
      ({ actor }) =>
        onePageBody(
          listPasskeys(app.db, requireActorUser(app, actor).id).map((passkey) => toWire(PasskeyRecord, passkey, {})),
        ),
      {
        response: PageBody(PasskeyRecord),
        detail: own('List the passkeys of the user', 'All on one page, oldest first.'),
      },
    )
    .post(
      '/passkeys/options',
      async ({ actor, set }) => {
        const { options, cookie } = await ceremonies.beginAdding(actor)
        set.headers['set-cookie'] = cookie
        return dataBody({ options: { ...options } })
      },
      {
        response: DataBody(Options),
        detail: own('Start to add a passkey', 'The response sets a cookie, valid once within five minutes.', {
          403: FACTORS_REQUIRED,
          409: ['passkeys_unavailable', 'Browsers have no passkeys for TASSIS_PUBLIC_URL, or the user has 20.'],
        }),
      },
    )
    .post(
      '/passkeys',
      async ({ actor, body, request, status }) => {
        const credential = body.credential as unknown as RegistrationResponseJSON
        const passkey = await ceremonies.add(actor, request, body.name, credential)
        return status(201, dataBody(toWire(PasskeyRecord, passkey, {})))
      },
      {
        body: NewPasskey,
        response: { 201: DataBody(PasskeyRecord) },
        detail: own('Add a passkey', 'It then signs the user in alone, in place of password and code.', {
          403: FACTORS_REQUIRED,
          409: ['passkey_exists', 'It was added already, or the user has 20.'],
        }),
      },
    )
    .delete('/passkeys/:id', ({ actor, params }) => ceremonies.remove(actor, params.id), {
      params: Type.Object({ id: Type.String({ description: 'Id of the passkey.' }) }),
      detail: own('Remove a passkey', 'Other sessions of the user must show a second factor again.', {
        403: FACTORS_REQUIRED,
      }),
    })
    .post(
      '/session/passkey',
      ({ actor, body, request }) =>
        ceremonies.confirm(actor, request, body.credential as unknown as AuthenticationResponseJSON),
      {
        body: UsedPasskey,
        detail: own(
          'Confirm with a passkey',
          'Counts as the password, for ten minutes, and as a second factor of this session.',
          { ...LIMITED, ...UNAVAILABLE, 422: NOT_ACCEPTED[401] },
        ),
      },
    )
}
