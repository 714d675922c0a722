/**
 * @module Accepts an invitation: as a new user, as the user of that address with password and code, or as that user,
 * already signed in.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import type { Tx } from '#platform/db/open.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import type { Attempts } from './attempts.ts'
import { consumeInvitation, findInvitation, type OpenInvitation } from './invitations.ts'
import {
  type Browser,
  checkPassword,
  consumeFactors,
  invalidLogin,
  isTotpOn,
  onlyByProvider,
  recordFailedLogin,
  type SignedIn,
  signIn,
} from './login.ts'
import { invalidLink } from './password-reset.ts'
import { hashPassword, requireStrongPassword } from './passwords.ts'
import type { SignInProof } from './sessions.ts'
import {
  addMember,
  changeUser,
  createUserWithPassword,
  findUserByEmail,
  isOnlyProvided,
  type Membership,
  toUserActor,
  type User,
} from './users.ts'

/**
 * The name of a new user may be empty. The password is the new one of a user without one, and else that of the user.
 */
type JoinInput = Readonly<Record<'token' | 'name' | 'password' | 'code', string>>

/**
 * How the invited person proves who they are. The link proves the mailbox, which is enough for a user without a
 * password.
 */
export type Proof = 'new-password' | 'password' | 'session' | 'provider'

/** @param signedIn the user who is signed in in the browser that sent the request */
export function findRequiredProof(app: App, { email }: OpenInvitation, signedIn: Actor | undefined): Proof {
  const user = findUserByEmail(app.db, email)
  if (user && signedIn?.id === formatUuid(user.uuid)) return 'session'
  if (!app.config.localSignIn || (user && isOnlyProvided(app, user))) return 'provider'
  return !user || user.passwordHash === null ? 'new-password' : 'password'
}

/**
 * Makes the invited person a member and signs them in. If several requests use the same link at the same time, exactly
 * one succeeds. Throws 422 for a link that is no longer valid or a password that is not accepted, 401 when the password
 * or code of a user is wrong, 409 when the user already belongs to the team.
 * @param signedIn the user who is signed in in this browser, if one of our pages sent the request
 */
export async function join(
  app: App,
  attempts: Attempts,
  input: JoinInput,
  browser: Browser,
  signedIn: Actor | undefined,
): Promise<SignedIn> {
  attempts.requireNetwork(browser.ipAddress)
  const invitation = findInvitation(app.db, input.token, app.clock.now())
  if (!invitation) throw invalidLink()
  switch (findRequiredProof(app, invitation, signedIn)) {
    case 'new-password':
      return joinWithNewPassword(app, invitation, input, browser)
    case 'password':
      return joinByPassword(app, attempts, invitation, input, browser)
    case 'provider':
      throw onlyByProvider(app.config)
    case 'session':
      return app.commit.write((tx) => {
        const user = findUserByEmail(tx.db, invitation.email)
        if (!user) throw invalidLink()
        return acceptInvitation(app, tx, invitation, user, browser, { hasPassword: false, hasSecondFactor: false })
      })
  }
}

async function joinWithNewPassword(
  app: App,
  invitation: OpenInvitation,
  { name, password }: JoinInput,
  browser: Browser,
): Promise<SignedIn> {
  const { email, role } = invitation
  requireStrongPassword(password, email)
  const passwordHash = await hashPassword(password, email)
  return app.commit.write((tx) => {
    const known = findUserByEmail(tx.db, email)
    // The user has set a password since then, so it is required now.
    if (known && known.passwordHash !== null) throw invalidLink()
    if (known) {
      changeUser(tx, known.id, { passwordHash })
      return acceptInvitation(app, tx, invitation, known, browser, { hasPassword: true, hasSecondFactor: false })
    }
    if (!consumeInvitation(tx, invitation)) throw invalidLink()
    const uuid = newUuid()
    const membership = toMembership(invitation)
    const actor = toUserActor({ uuid }, membership, browser.ipAddress)
    const user = createUserWithPassword(app, tx, actor, { uuid, email, name, passwordHash, role })
    return signIn(app, tx, user, membership, browser, { how: 'invitation', hasPassword: true, hasSecondFactor: false })
  })
}

async function joinByPassword(
  app: App,
  attempts: Attempts,
  invitation: OpenInvitation,
  { password, code }: JoinInput,
  browser: Browser,
): Promise<SignedIn> {
  const { email } = invitation
  const checked = await checkPassword(app, attempts, { email, password }, browser)
  const joined = await app.commit.write((tx) => {
    const user = checked && consumeFactors(app, attempts, tx, checked, code, browser.ipAddress)
    return (
      user &&
      acceptInvitation(app, tx, invitation, user, browser, { hasPassword: true, hasSecondFactor: isTotpOn(user) })
    )
  })
  if (joined) return joined
  recordFailedLogin(app, attempts, email, checked, browser)
  throw invalidLogin(app.config)
}

/**
 * Consumes the invitation for an existing user.
 * @param proof what the user proved
 */
function acceptInvitation(
  app: App,
  tx: Tx,
  invitation: OpenInvitation,
  user: User,
  browser: Browser,
  proof: Omit<SignInProof, 'how'>,
): SignedIn {
  if (!consumeInvitation(tx, invitation)) throw invalidLink()
  const membership = toMembership(invitation)
  addMember(app, tx, toUserActor(user, membership, browser.ipAddress), user, invitation.role)
  return signIn(app, tx, user, membership, browser, { how: 'invitation', ...proof })
}

const toMembership = ({ accountId, accountUuid, accountName, role }: OpenInvitation): Membership => ({
  accountId,
  uuid: accountUuid,
  name: accountName,
  role,
})
