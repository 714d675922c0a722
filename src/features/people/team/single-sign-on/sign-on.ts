/**
 * @module Signs in whom the identity provider names. A user is found by issuer and subject; the first time, by the
 * verified address. The provider gives, changes and takes away the roles that it gave; those that were given here stay.
 * All of a sign-in is one transaction, also when it ends without a session.
 */
import { type Account, findAccountByUuid } from '#features/core/accounts/accounts.ts'
import { announceAccessChange } from '#features/core/app/account-changes.ts'
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { auditChange, createSystemActor, SYSTEM_ACTOR } from '#features/core/audit-logs/audit.ts'
import type { Tx } from '#platform/db/open.ts'
import { AppError, attempt } from '#platform/errors.ts'
import { formatUuid, newUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import { hours } from '#platform/units.ts'
import { normaliseAddress } from '#protocols/address/parse.ts'
import type { Attempts } from '../attempts.ts'
import { consumeInvitation, findInvitation } from '../invitations.ts'
import { SIGN_ON_PATH } from '../links.ts'
import { auditInAccounts, type Browser, type SignedIn, signIn } from '../login.ts'
import { deletePasskeys } from '../passkeys/passkeys.ts'
import { endOtherSessions, listSessions } from '../sessions.ts'
import { findFirstAccount } from '../setup.ts'
import {
  addMember,
  changeUser,
  createUserWithPassword,
  deleteMembership,
  findIdentity,
  findMember,
  findUser,
  findUserByEmail,
  hasIdentity,
  hasOtherOwner,
  insertIdentity,
  isTeamFull,
  listMemberships,
  listProvidedMemberships,
  type Membership,
  NO_TOTP,
  parseUserEmail,
  setMemberRole,
  type User,
} from '../users.ts'
import { findGrants } from './grants.ts'
import type { ProvidedIdentity } from './provider.ts'

/** What the provider says is asked for again after this time, so that what it took away ends here too. */
const SESSION_MAX_MS = hours(24)

/** A membership that somebody gets. */
interface Grant {
  readonly accountId: number
  readonly uuid: UuidBytes
  readonly role: TeamRole
  readonly isProvided: boolean
}

export interface SignOn {
  readonly identity: ProvidedIdentity
  readonly browser: Browser
  /** Of an invitation that the person wants to accept; empty: none. */
  readonly invitation: string
}

/** Throws 403 when the person has no role here, or the address cannot be theirs; then nobody is signed in. */
export async function signOn(app: App, attempts: Attempts, input: SignOn): Promise<SignedIn> {
  const done = await app.commit.writeFromReserve((tx) => signOnWithin(app, attempts, tx, input))
  // Returned, not thrown: roles that were taken away, and the audit entry, stay.
  if (done instanceof AppError) throw done
  return done
}

function signOnWithin(app: App, attempts: Attempts, tx: Tx, { identity, browser, invitation }: SignOn) {
  const { oidcName: provider } = app.config
  const { issuer, subject } = identity
  const linkedId = findIdentity(tx.db, issuer, subject)
  const linked = linkedId === undefined ? undefined : findUser(tx.db, linkedId)
  const email = identity.email === undefined ? undefined : attempt(() => parseUserEmail(identity.email ?? ''))
  const address = email ?? linked?.email
  const refuse = (code: string, message: string, user?: User): AppError => {
    if (attempts.canAuditFailure(user?.id ?? 0)) auditRefusal(app, tx, { user, address, reason: code }, browser)
    return new AppError(403, code, message)
  }
  if (address === undefined)
    return refuse('email_unverified', `${provider} does not say that your email address is verified.`)
  const known = linked ?? findUserByEmail(tx.db, address)
  // An address that was given to somebody else at the provider must not open what its former owner has here.
  if (known && !linked && hasIdentity({ db: tx.db, config: app.config }, known))
    return refuse('address_taken', `${address} belongs to a user who is somebody else at ${provider}.`, known)
  const grants = listGrants(app, tx, { identity, email, user: known })
  if (grants === undefined) {
    app.log.warn({ account: app.config.oidcAccount }, 'single sign-on refused: TASSIS_OIDC_ACCOUNT names no account')
    return refuse(
      'account_unknown',
      `${provider} gives you a role here, but not in which account. The operator of this server must name it in TASSIS_OIDC_ACCOUNT.`,
      known,
    )
  }
  if (known && !linked && !isOwnSession(app, tx, known, browser)) {
    if (known.operatorAt !== null)
      return refuse(
        'operator_not_linked',
        `You are an operator of this service: sign in as before, then open ${SIGN_ON_PATH} in the same browser.`,
        known,
      )
    removeCredentials(app, tx, known, browser)
  }
  grants.push(...acceptInvitation(app, tx, { address, invitation, user: known, grants }))
  const [first] = grants
  const person = { email: address, name: identity.name, uuid: newUuid(), passwordHash: null }
  const user = known ?? (first && createUserWithPassword(app, tx, toActor(first, browser), { ...first, ...person }))
  if (user && !linked) {
    insertIdentity(tx, { issuer, subject, userId: user.id }, app.eventTime())
    auditInAccounts(app, tx, user, 'user.identity_linked', browser.ipAddress)
  }
  if (linked && email !== undefined) changeAddress(app, tx, linked, email, browser)
  if (user) applyGrants(app, tx, user, grants, browser)
  const current = user && findUser(tx.db, user.id)
  const [membership] = current ? listMemberships(tx.db, current.id) : []
  if (!current || !membership)
    return refuse('no_role', `${provider} knows you as ${address}, but gives you no role here.`, current)
  const proof = { how: 'single_sign_on', hasPassword: identity.isFresh, hasSecondFactor: false } as const
  return signIn(app, tx, current, membership, browser, { ...proof, maxMs: SESSION_MAX_MS })
}

/** Whether the browser is signed in as the user. */
const isOwnSession = ({ clock }: App, tx: Tx, user: User, { sessionId }: Browser): boolean =>
  listSessions(tx.db, user.id, clock.now()).some(({ id }) => id === sessionId)

/**
 * Somebody may have created the user with an address that is not theirs, and wait for its owner: what they know or have
 * lets nobody in any more.
 */
function removeCredentials(app: App, tx: Tx, user: User, { ipAddress }: Browser): void {
  changeUser(tx, user.id, { passwordHash: null, ...NO_TOTP })
  deletePasskeys(tx, user.id)
  endOtherSessions(app, tx, user.id)
  auditInAccounts(app, tx, user, 'user.credentials_removed', ipAddress)
}

interface Granted {
  readonly identity: ProvidedIdentity
  /** Verified in this sign-in. */
  readonly email: string | undefined
  readonly user: User | undefined
}

/** What the provider gives, in accounts that exist; undefined: it does not say where, so nothing may be taken away. */
function listGrants(app: App, tx: Tx, { identity, email, user }: Granted): Grant[] | undefined {
  const { config } = app
  const first = config.oidcAccount === '' ? findFirstAccount(tx.db)?.uuid : parseUuid(config.oidcAccount)
  const account = first && findAccountByUuid(config, tx.db, first) ? formatUuid(first) : undefined
  const found = findGrants(config, identity.roles, email, account)
  if (found.has(undefined)) return undefined
  return [...found].flatMap(([id = '', role]) => {
    const to = findAccountByUuid(config, tx.db, parseUuid(id) ?? new Uint8Array())
    return to && hasRoom(app, tx, to, user) ? [{ accountId: to.id, uuid: to.uuid, role, isProvided: true }] : []
  })
}

/** Whether the user is in the team, or can be: a full team is no reason to let nobody in elsewhere. */
function hasRoom(
  { log }: App,
  { db }: Tx,
  { id, uuid }: Pick<Account, 'id' | 'uuid'>,
  user: User | undefined,
): boolean {
  if ((user && findMember(db, id, user.uuid)) || !isTeamFull(db, id)) return true
  log.warn({ account: formatUuid(uuid) }, 'role of the identity provider not given: the team is full')
  return false
}

interface Accepted {
  readonly address: string
  readonly invitation: string
  readonly user: User | undefined
  /** What the provider gives, which counts more. */
  readonly grants: readonly Grant[]
}

function acceptInvitation(app: App, tx: Tx, { address, invitation: token, user, grants }: Accepted): Grant[] {
  const invitation = findInvitation(tx.db, token, app.clock.now())
  if (!invitation || normaliseAddress(invitation.email) !== address) return []
  const { accountId, accountUuid: uuid, role } = invitation
  if (!hasRoom(app, tx, { id: accountId, uuid }, user) || !consumeInvitation(tx, invitation)) return []
  return grants.some((grant) => grant.accountId === accountId) ? [] : [{ accountId, uuid, role, isProvided: false }]
}

/** The provider acts, by the browser of the person. */
const toActor = (account: Pick<Grant, 'accountId' | 'uuid'>, { ipAddress }: Browser): Actor => ({
  ...createSystemActor({ accountId: account.accountId, accountUuid: account.uuid }),
  ipAddress,
})

function changeAddress(app: App, tx: Tx, user: User, email: string, { ipAddress }: Browser): void {
  if (email === user.email) return
  if (findUserByEmail(tx.db, email)) {
    app.log.warn({ user: formatUuid(user.uuid) }, 'address not changed: another user has it')
    return
  }
  changeUser(tx, user.id, { email })
  auditInAccounts(app, tx, user, 'user.email_changed', ipAddress)
}

/** Gives what the provider gives now, and takes away what it gave before; an account keeps its only owner. */
function applyGrants(app: App, tx: Tx, user: User, grants: readonly Grant[], browser: Browser): void {
  const provided = new Map(listProvidedMemberships(tx.db, user.id).map((had) => [had.accountId, had]))
  const member = { userId: user.id, uuid: user.uuid }
  for (const grant of grants) {
    const { accountId, role } = grant
    const actor = toActor(grant, browser)
    const had = provided.get(accountId)
    provided.delete(accountId)
    if (!findMember(tx.db, accountId, user.uuid)) addMember(app, tx, actor, user, role, grant.isProvided)
    if (!had || (had.role === role && grant.isProvided) || isOnlyOwner(app, tx, had, user)) continue
    setMemberRole(tx, accountId, member, role, grant.isProvided)
    announceAccessChange(app, tx, accountId)
    auditChange(app, tx, actor, 'member.role_changed', user.uuid, { from: had.role, to: role }, 'user')
  }
  for (const had of provided.values()) {
    if (isOnlyOwner(app, tx, had, user)) continue
    auditChange(app, tx, toActor(had, browser), 'member.removed', user.uuid, { role: had.role }, 'user')
    deleteMembership(tx, had.accountId, member)
    announceAccessChange(app, tx, had.accountId)
  }
}

/** A mistake at the provider must not leave an account without an owner. */
function isOnlyOwner({ log }: App, tx: Tx, { accountId, role }: Membership, { id, uuid }: User): boolean {
  if (role !== 'owner' || hasOtherOwner(tx.db, accountId, id)) return false
  log.warn({ user: formatUuid(uuid) }, 'identity provider ignored: the only owner of an account stays its owner')
  return true
}

interface Refusal {
  readonly user: User | undefined
  readonly address: string | undefined
  readonly reason: string
}

/** In the accounts of the user; for a stranger, in the account that people join, or else in that of the installation. */
function auditRefusal(app: App, tx: Tx, { user, address, reason }: Refusal, { ipAddress }: Browser): void {
  if (user && listMemberships(tx.db, user.id).length > 0) {
    auditInAccounts(app, tx, user, 'user.sign_on_refused', ipAddress, undefined, { reason })
    return
  }
  const uuid = parseUuid(app.config.oidcAccount) ?? findFirstAccount(tx.db)?.uuid
  const account = uuid && findAccountByUuid(app.config, tx.db, uuid)
  const actor = account ? createSystemActor({ accountId: account.id, accountUuid: account.uuid }) : SYSTEM_ACTOR
  auditChange(app, tx, { ...actor, ipAddress }, 'user.sign_on_refused', address ?? '', { reason })
}
