/**
 * @module The two ceremonies of WebAuthn: a passkey is added, and a user proves with one to be there. Each has two
 * requests: options with a challenge, and the signed response.
 */
import type {
  AuthenticationResponseJSON,
  AuthenticatorTransport,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import type { Actor, App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/open.ts'
import { AppError, conflict, invalid, notFound } from '#platform/errors.ts'
import { parseName } from '#platform/http/validation.ts'
import { newUuid, parseUuid } from '#platform/ids.ts'
import { minutes } from '#platform/units.ts'
import type { Attempts } from '../attempts.ts'
import { requireRecentPassword } from '../credentials.ts'
import { createFlowCookie } from '../flow-cookie.ts'
import { auditInAccounts, type Browser, onlyByProvider, requireActorUser, type SignedIn, signIn } from '../login.ts'
import { changeSession, forgetSecondFactors, requireOwnSecondFactor, requireSessionId } from '../sessions.ts'
import { findUser, isOnlyProvided, listMemberships, type User } from '../users.ts'
import {
  deletePasskey,
  findPasskey,
  findRelyingParty,
  insertPasskey,
  listPasskeys,
  MAX_PASSKEYS,
  type Passkey,
  recordPasskeyUse,
} from './passkeys.ts'

const VALID_MS = minutes(5)
const RP_NAME = 'Tassis'

/** Its reader of certificates does not start without the other package, which the executable would load later. */
async function loadWebAuthn() {
  await import('reflect-metadata')
  return import('@simplewebauthn/server')
}

interface Challenge {
  readonly challenge: string
  readonly purpose: 'add' | 'use'
  /** Row id of the session of the browser; null: it has none. */
  readonly session: number | null
}

const invalidPasskey = (): AppError =>
  new AppError(401, 'invalid_passkey', 'This passkey was not accepted; try again, or sign in in another way.')

const notAdded = (): AppError => invalid('credential', 'This passkey was not accepted; try again.')

/** Throws 409 where browsers have no passkeys. */
function requireRelyingParty({ config }: App) {
  const party = findRelyingParty(config)
  if (party) return party
  throw conflict(
    'passkeys_unavailable',
    'Browsers have passkeys only for host names with https; set TASSIS_PUBLIC_URL to such a URL.',
  )
}

/** For somebody who is signed in a 401 would say that the session has ended. */
const toRefusal = (error: unknown): never => {
  throw error instanceof AppError && error.status === 401 ? new AppError(422, error.code, error.message) : error
}

export function createCeremonies(app: App, attempts: Attempts) {
  /** A recent password, and a second factor of those that the user has. */
  const requireBothFactors = (actor: Actor, db = app.db): void => {
    requireRecentPassword({ clock: app.clock, db }, actor)
    requireOwnSecondFactor(db, actor)
  }
  const cookie = createFlowCookie<Challenge>(app, 'tassis_passkey', VALID_MS)
  /** The challenge; undefined when this browser has none for it. */
  const take = (request: Request, purpose: Challenge['purpose'], session: number | null = null): string | undefined =>
    cookie.take(request, (found) => found.purpose === purpose && found.session === session)?.challenge
  /** The passkey that signed the challenge of this browser, with its new counter. */
  const verify = async (request: Request, response: AuthenticationResponseJSON, session: number | undefined) => {
    const { id: expectedRPID, origin: expectedOrigin } = requireRelyingParty(app)
    const expectedChallenge = take(request, 'use', session)
    if (expectedChallenge === undefined) throw invalidPasskey()
    const passkey = findPasskey(app.db, Buffer.from(response.id, 'base64url'))
    const user = passkey && findUser(app.db, passkey.userId)
    if (!passkey || !user) throw invalidPasskey()
    const { verifyAuthenticationResponse } = await loadWebAuthn()
    const { userHandle } = response.response
    const isOwner = userHandle === undefined || Buffer.from(userHandle, 'base64url').equals(user.uuid)
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge,
      expectedOrigin,
      expectedRPID,
      // The counter is compared in the transaction that stores the new one.
      credential: { ...toDescriptor(passkey), publicKey: new Uint8Array(passkey.publicKey), counter: 0 },
      requireUserVerification: true,
    }).catch((error: unknown) => {
      app.log.warn({ err: error }, 'passkey not accepted')
      throw invalidPasskey()
    })
    if (!verified || !isOwner) throw invalidPasskey()
    return { passkey, counter: authenticationInfo.newCounter }
  }
  /** Uses it in a transaction, for its user. */
  const use = async <T>(
    { passkey, counter }: { readonly passkey: Passkey; readonly counter: number },
    ipAddress: string,
    work: (tx: Tx, user: User) => T,
  ): Promise<T> => {
    const done = await app.commit.writeFromReserve((tx) => {
      const current = findPasskey(tx.db, passkey.credentialId)
      const user = current && findUser(tx.db, current.userId)
      if (!current || !user) throw invalidPasskey()
      if (recordPasskeyUse(tx, current, counter, app.eventTime())) return { result: work(tx, user) }
      auditInAccounts(app, tx, user, 'user.passkey_clone_refused', ipAddress)
      return undefined
    })
    if (!done) throw invalidPasskey()
    return done.result
  }
  return {
    /** Options for adding a passkey, and the cookie that goes with them. Throws 403 without both factors. */
    async beginAdding(actor: Actor) {
      requireBothFactors(actor)
      const { id: rpID } = requireRelyingParty(app)
      const user = requireActorUser(app, actor)
      const known = listPasskeys(app.db, user.id)
      requireCapacity(known)
      const { generateRegistrationOptions } = await loadWebAuthn()
      const options = await generateRegistrationOptions({
        rpName: RP_NAME,
        rpID,
        userName: user.email,
        userDisplayName: user.name,
        userID: new Uint8Array(user.uuid),
        timeout: VALID_MS,
        excludeCredentials: known.map(toDescriptor),
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      })
      const session = requireSessionId(actor)
      return { options, cookie: cookie.begin({ challenge: options.challenge, purpose: 'add', session }) }
    },
    /** Adds the passkey that the browser made. The session has then shown a second factor. */
    async add(actor: Actor, request: Request, name: string, response: RegistrationResponseJSON): Promise<Passkey> {
      requireBothFactors(actor)
      const { id: expectedRPID, origin: expectedOrigin } = requireRelyingParty(app)
      const expectedChallenge = take(request, 'add', requireSessionId(actor))
      if (expectedChallenge === undefined) throw notAdded()
      const { verifyRegistrationResponse } = await loadWebAuthn()
      const options = { response, expectedChallenge, expectedOrigin, expectedRPID, requireUserVerification: true }
      const { registrationInfo: info } = await verifyRegistrationResponse(options).catch((error: unknown) => {
        app.log.warn({ err: error }, 'passkey not added')
        return { registrationInfo: undefined }
      })
      if (!info) throw notAdded()
      const { id, publicKey, counter, transports = [] } = info.credential
      const credentialId = new Uint8Array(Buffer.from(id, 'base64url'))
      return app.commit.write((tx) => {
        requireOwnSecondFactor(tx.db, actor)
        const user = requireActorUser(app, actor, tx.db)
        requireCapacity(listPasskeys(tx.db, user.id))
        if (findPasskey(tx.db, credentialId)) throw conflict('passkey_exists', 'This passkey was added already.')
        const now = app.eventTime()
        const own = { uuid: newUuid(), userId: user.id, name: parseName(name), createdAt: now }
        const key = { credentialId, publicKey, counter, transports: JSON.stringify(transports.slice(0, 10)) }
        changeSession(tx, requireSessionId(actor), { secondFactorAt: now })
        auditInAccounts(app, tx, user, 'user.passkey_added', undefined, actor)
        return insertPasskey(tx, { ...own, ...key })
      })
    },
    /** Removes one of the actor's passkeys. Throws 404, and 403 without both factors. */
    remove(actor: Actor, id: string): Promise<void> {
      return app.commit.writeFromReserve((tx) => {
        requireBothFactors(actor, tx.db)
        const user = requireActorUser(app, actor, tx.db)
        const uuid = parseUuid(id)
        if (!uuid || !deletePasskey(tx, user.id, uuid)) throw notFound('passkey_not_found', 'Passkey not found.')
        forgetSecondFactors(tx, user.id, requireSessionId(actor))
        auditInAccounts(app, tx, user, 'user.passkey_removed', undefined, actor)
      })
    },
    /** Options for using a passkey: those of the signed-in user, or any. */
    async beginUsing(actor: Actor | undefined) {
      const { id: rpID } = requireRelyingParty(app)
      const { generateAuthenticationOptions } = await loadWebAuthn()
      const known = actor ? listPasskeys(app.db, requireActorUser(app, actor).id) : []
      const options = await generateAuthenticationOptions({
        rpID,
        timeout: VALID_MS,
        userVerification: 'required',
        ...(actor && { allowCredentials: known.map(toDescriptor) }),
      })
      const session = actor ? requireSessionId(actor) : null
      return { options, cookie: cookie.begin({ challenge: options.challenge, purpose: 'use', session }) }
    },
    /** Signs a user in with a passkey alone. Throws 401, 403 where only the identity provider lets them in, 429. */
    async signIn(request: Request, response: AuthenticationResponseJSON, browser: Browser): Promise<SignedIn> {
      if (!app.config.localSignIn) throw onlyByProvider(app.config)
      attempts.requireNetwork(browser.ipAddress)
      const verified = await verify(request, response, browser.sessionId)
      return use(verified, browser.ipAddress, (tx, user) => {
        if (isOnlyProvided({ db: tx.db, config: app.config }, user)) throw onlyByProvider(app.config)
        const [membership] = listMemberships(tx.db, user.id)
        if (!membership) throw invalidPasskey()
        const proof = { how: 'passkey', hasPassword: true, hasSecondFactor: true } as const
        return signIn(app, tx, user, membership, browser, proof)
      })
    },
    /** Confirms that the signed-in user is there: as good as the password and a code. */
    async confirm(actor: Actor, request: Request, response: AuthenticationResponseJSON): Promise<void> {
      attempts.requireUser(requireActorUser(app, actor).email, actor.ipAddress ?? '')
      const session = requireSessionId(actor)
      const verified = await verify(request, response, session).catch(toRefusal)
      await use(verified, actor.ipAddress ?? '', (tx, user) => {
        if (requireActorUser(app, actor, tx.db).id !== user.id) throw invalidPasskey()
        changeSession(tx, session, { passwordAt: app.clock.now(), secondFactorAt: app.eventTime() })
        auditInAccounts(app, tx, user, 'user.passkey_confirmed', undefined, actor)
      }).catch(toRefusal)
    },
  }
}

function requireCapacity(known: readonly Passkey[]): void {
  if (known.length >= MAX_PASSKEYS)
    throw conflict('too_many_passkeys', `You can have at most ${MAX_PASSKEYS} passkeys; remove one first.`)
}

const toDescriptor = ({ credentialId, transports }: Passkey) => ({
  id: Buffer.from(credentialId).toString('base64url'),
  transports: JSON.parse(transports) as AuthenticatorTransport[],
})
