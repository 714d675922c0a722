/**
 * @module Links to set a password: sent by mail at the user's request, or created by the operator. A link works once.
 * It proves that the user has the mailbox, so it sets the password and ends all sessions; it signs no one in and
 * leaves the second factor enabled. Never reveals whether an address belongs to a user.
 */
import type { App } from '#features/core/app/app.ts'
import { sendSystemMail } from '#features/sending/system-mail/send.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { yieldToEventLoop } from '#platform/time/clock.ts'
import { hours } from '#platform/units.ts'
import type { Attempts } from './attempts.ts'
import { createLinkToken, formatLink, hashLinkToken, RESET_PATH } from './links.ts'
import { auditInAccounts } from './login.ts'
import { hashPassword, requireStrongPassword } from './passwords.ts'
import { endOtherSessions } from './sessions.ts'
import { changeUser, findUser, findUserByEmail, isOnlyProvided, listMemberships, type User } from './users.ts'

const MAIL_LINK_MS = hours(1)
/** Longer than for a mailed link, because the operator has to pass the link on. */
export const OPERATOR_LINK_MS = hours(24)
/** Requests handled at the same time; further ones are dropped, and the user can ask again. */
const MAX_CONCURRENT_REQUESTS = 20
/** Links of a user that are valid at the same time. */
const MAX_LINKS_PER_USER = 5

const sql = prepareStatements((db) => ({
  insert: db.prepare('INSERT INTO password_resets (user_id, token_hash, expires_at, created_at) VALUES (?, ?, ?, ?)'),
  crowded: db.prepare(
    `DELETE FROM password_resets WHERE user_id = ? AND id NOT IN (SELECT id FROM password_resets WHERE user_id = ? ORDER BY id DESC LIMIT ${MAX_LINKS_PER_USER})`,
  ),
  find: db.prepare<{ userId: number }, [Uint8Array, number]>(
    'SELECT user_id AS userId FROM password_resets WHERE token_hash = ? AND expires_at > ?',
  ),
  take: db.prepare<{ userId: number }, [Uint8Array, number]>(
    'DELETE FROM password_resets WHERE token_hash = ? AND expires_at > ? RETURNING user_id AS userId',
  ),
}))

export const invalidLink = (): AppError =>
  new AppError(422, 'invalid_token', 'This link was already used, has expired or is incomplete; request a new one.')

/** Creates a link to set a user's password, in the caller's transaction. */
export function createResetLink(app: App, tx: Tx, user: User, validMs: number): string {
  const { token, hash } = createLinkToken()
  // Not `eventTime`: see `startSession`.
  const now = app.clock.now()
  sql(tx.db).insert.run(user.id, hash, now + validMs, now)
  sql(tx.db).crowded.run(user.id, user.id)
  return formatLink(app.config, RESET_PATH, token)
}

export interface ResetLink {
  readonly email: string
  /** Whether the user never had a password. */
  readonly isFirst: boolean
}

/** Whose password a link sets; undefined when the link is no longer valid. */
export function findResetLink(app: App, token: string): ResetLink | undefined {
  const hash = hashLinkToken(token)
  const found = hash && sql(app.db).find.get(hash, app.clock.now())
  const user = found && findUser(app.db, found.userId)
  return user ? { email: user.email, isFirst: user.passwordHash === null } : undefined
}

/**
 * Returns the function that accepts requests for a link. It throws 429 after too many of them; everything else happens
 * after it has returned, so neither its response nor its duration reveals whether the user exists.
 * @param trackWork gets this work, to wait for it before the database is closed
 */
export function createResetRequester(
  app: App,
  attempts: Attempts,
  trackWork: (work: Promise<void>) => void,
): (email: string, ipAddress: string) => void {
  let running = 0
  const send = async (email: string, ipAddress: string): Promise<void> => {
    const user = findUserByEmail(app.db, email)
    if (!user || listMemberships(app.db, user.id).length === 0 || !attempts.canSendMail(user.email)) return
    // Else the mailbox would let in whom the identity provider no longer does.
    if (isOnlyProvided(app, user)) return
    const link = await app.commit.write((tx) => {
      auditInAccounts(app, tx, user, 'user.password_reset_requested', ipAddress)
      return createResetLink(app, tx, user, MAIL_LINK_MS)
    })
    await sendSystemMail(app, {
      about: listMemberships(app.db, user.id).map(({ accountId }) => accountId),
      to: [user.email],
      subject: 'Set a new password',
      text: `Someone, probably you, requested a new password for ${user.email} at ${new URL(app.config.publicUrl).host}.

Set it here within one hour:
${link}

If it was not you, ignore this mail: your password stays as it is.
`,
    })
  }
  return (email, ipAddress) => {
    // Not limited by user: an attacker who tries passwords must not keep the user from setting a new one.
    attempts.requireNetwork(ipAddress)
    if (running >= MAX_CONCURRENT_REQUESTS) return app.log.warn({}, 'password reset dropped: too many requests')
    running++
    trackWork(
      // Runs after the response.
      yieldToEventLoop()
        .then(() => send(email, ipAddress))
        .catch((error: unknown) => app.log.error({ err: error }, 'password reset mail not sent'))
        .finally(() => void running--),
    )
  }
}

/**
 * Sets the password with a link. Throws 422 for a link that is no longer valid or a password that is not accepted; of
 * several uses at the same time exactly one succeeds.
 */
export async function confirmReset(
  app: App,
  attempts: Attempts,
  input: { readonly token: string; readonly password: string },
  ipAddress: string,
): Promise<ResetLink> {
  attempts.requireNetwork(ipAddress)
  const hash = hashLinkToken(input.token)
  const link = hash && findResetLink(app, input.token)
  if (!hash || !link) throw invalidLink()
  const { email } = link
  requireStrongPassword(input.password, email)
  const passwordHash = await hashPassword(input.password, email)
  await app.commit.write((tx) => {
    const consumed = sql(tx.db).take.get(hash, app.clock.now())
    const user = consumed && findUser(tx.db, consumed.userId)
    if (!user) throw invalidLink()
    changeUser(tx, user.id, { passwordHash })
    endOtherSessions(app, tx, user.id)
    auditInAccounts(app, tx, user, 'user.password_reset', ipAddress)
  })
  attempts.resetCodeFailures(email)
  return link
}
