/**
 * @module The first start: a link that creates the first user as the owner of the first account, which it creates too
 * unless there is one. It is valid for one hour, for the last start of the service, and only while there is no user and
 * at most one account: so it works once, and creating a user on the command line ends it.
 */
import type { Database } from 'bun:sqlite'
import type { accounts } from '#features/core/accounts/tables.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { getMeta, setMeta } from '#features/core/events/record.ts'
import { equalBytes } from '#platform/crypto/crypto.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { newUuid, type UuidBytes } from '#platform/ids.ts'
import { hours } from '#platform/units.ts'
import type { Attempts } from './attempts.ts'
import { createLinkToken, formatLink, hashLinkToken, SETUP_PATH } from './links.ts'
import { type Browser, type SignedIn, signIn } from './login.ts'
import { hashPassword, requireStrongPassword } from './passwords.ts'
import { createUserWithPassword, type Membership, parseUserEmail, toUserActor } from './users.ts'

const VALID_MS = hours(1)
/** Holds the hash of the token and its expiry; empty once it was used. */
const META_KEY = 'setup_link'

/** The account that the first user will own. */
type FirstAccount = Pick<typeof accounts.$inferSelect, 'id' | 'uuid' | 'name'>

const sql = prepareStatements((db) => ({
  hasUser: db.prepare<{ one: number }, []>('SELECT 1 AS one FROM users LIMIT 1'),
  firstAccounts: db.prepare<FirstAccount, []>(
    'SELECT id, uuid, name FROM accounts WHERE deleted_at IS NULL AND parent_id IS NULL ORDER BY id LIMIT 2',
  ),
}))

/** The only account, besides its sub-accounts; undefined when there is none, or several. */
export function findFirstAccount(db: Database): FirstAccount | undefined {
  const [first, second] = sql(db).firstAccounts.all()
  return second ? undefined : first
}

const isInUse = (db: Database): boolean => sql(db).hasUser.get() !== null || sql(db).firstAccounts.all().length > 1

interface StoredLink {
  /** SHA-256 of the token, base64. */
  readonly hash: string
  readonly expiresAt: number
}

/**
 * Creates the link, which replaces that of an earlier start; undefined when there is a user, or several accounts.
 * @param publicUrl where browsers reach the service
 */
export async function createSetupLink(app: App, publicUrl = app.config.publicUrl): Promise<string | undefined> {
  if (isInUse(app.db)) return undefined
  const { token, hash } = createLinkToken()
  const stored: StoredLink = { hash: Buffer.from(hash).toString('base64'), expiresAt: app.clock.now() + VALID_MS }
  await app.commit.writeFromReserve((tx) => setMeta(tx.db, META_KEY, JSON.stringify(stored)))
  return formatLink({ publicUrl }, SETUP_PATH, token)
}

export function isSetupLink(app: App, token: string, db = app.db): boolean {
  const hash = hashLinkToken(token)
  const stored = getMeta(db, META_KEY)
  if (!hash || !stored || isInUse(db)) return false
  const { hash: expected, expiresAt } = JSON.parse(stored) as StoredLink
  return expiresAt > app.clock.now() && equalBytes(Buffer.from(expected, 'base64'), hash)
}

const invalidSetupLink = (): AppError =>
  new AppError(
    422,
    'invalid_token',
    'This link was already used, has expired or is incomplete; restart the service for a new one.',
  )

/** Those of a new account are ignored when there is one; an empty name is derived from the address. */
type SetupInput = Readonly<Record<'token' | 'accountName' | 'name' | 'email' | 'password', string>>

/** What creates an account: a later area knows how. */
export interface AccountCreator {
  /** Throws 422 for an invalid name or address. */
  parse(input: { readonly name: string; readonly email: string }): { readonly name: string; readonly email: string }
  /** @param toActor who creates the account */
  add(
    tx: Tx,
    input: { readonly name: string; readonly email: string },
    toActor: (accountId: number, uuid: UuidBytes) => Actor,
  ): FirstAccount
}

/**
 * Creates the account, unless there is one, and its owner, and signs the owner in, all in one transaction: of several uses at the same time
 * exactly one succeeds. Throws 422 for a link that is no longer valid, and for a name, address or password that is not
 * accepted; 429 after too many attempts.
 */
export async function setUp(
  app: App,
  { attempts, accounts }: { readonly attempts: Attempts; readonly accounts: AccountCreator },
  { token, accountName, name, email: address, password }: SetupInput,
  browser: Browser,
): Promise<SignedIn> {
  attempts.requireNetwork(browser.ipAddress)
  if (!isSetupLink(app, token)) throw invalidSetupLink()
  const email = parseUserEmail(address)
  const isWithAccount = findFirstAccount(app.db) !== undefined
  const account = isWithAccount ? undefined : accounts.parse({ name: accountName, email })
  requireStrongPassword(password, email)
  const passwordHash = await hashPassword(password, email)
  return app.commit.write((tx) => {
    if (!isSetupLink(app, token, tx.db)) throw invalidSetupLink()
    setMeta(tx.db, META_KEY, '')
    const uuid = newUuid()
    const toActor = (accountId: number, accountUuid: UuidBytes): Actor =>
      toUserActor({ uuid }, { accountId, uuid: accountUuid, role: 'owner' }, browser.ipAddress)
    const created = findFirstAccount(tx.db) ?? (account && accounts.add(tx, account, toActor))
    // The account was deleted while the password was hashed.
    if (!created) throw invalidSetupLink()
    const actor = toActor(created.id, created.uuid)
    const user = createUserWithPassword(app, tx, actor, { uuid, email, name, passwordHash, role: 'owner' })
    const membership: Membership = { accountId: created.id, uuid: created.uuid, name: created.name, role: 'owner' }
    return signIn(app, tx, user, membership, browser, { how: 'setup', hasPassword: true, hasSecondFactor: false })
  })
}
