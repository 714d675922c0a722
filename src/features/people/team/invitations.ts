/**
 * @module Invitations to a team: created by an administrator of the account, sent by mail, and accepted once by the
 * person who has the link. A person without a password sets one; a user with a password must sign in. Only the mail
 * has the token. An invitation is valid only while the user or key that created it exists: once a leaked key is
 * deleted, its invitations admit no one.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { sendSystemMail } from '#features/sending/system-mail/send.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { createRateLimiter, type Rate, requireTaken } from '#platform/http/rate-limit.ts'
import { newUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import { days, type Millis } from '#platform/units.ts'
import { createLinkToken, formatLink, hashLinkToken, JOIN_PATH } from './links.ts'
import { requireOwnerToChangeOwners } from './roles.ts'
import type { invitations } from './tables.ts'
import { alreadyMember, findMember, findUserByEmail, parseUserEmail } from './users.ts'

export interface Invitation extends Readonly<Omit<typeof invitations.$inferSelect, 'tokenHash' | 'role'>> {
  readonly role: TeamRole
}

/** An invitation as its recipient sees it. */
export interface OpenInvitation extends Invitation {
  readonly accountUuid: UuidBytes
  readonly accountName: string
}

export const INVITATION_DAYS = 7
export const MAX_INVITATIONS = 50
/** Limits of mails by one account, and to one address: this service must not be used to flood anyone. */
const ACCOUNT_RATE: Rate = { burst: MAX_INVITATIONS, ratePerSecond: MAX_INVITATIONS / 3600 }
const ADDRESS_RATE: Rate = { burst: 5, ratePerSecond: 5 / 3600 }

const COLUMNS = `invitations.id, invitations.uuid, account_id AS accountId, invitations.email, role, invited_by AS invitedBy, expires_at AS expiresAt,
  invitations.created_at AS createdAt`

const INVITER_UUID = "unhex(replace(invited_by, '-', ''))"

/** The account and its parent, which invites the owner of a sub-account. */
const INVITING_ACCOUNTS = '(invitations.account_id, (SELECT parent_id FROM accounts WHERE id = invitations.account_id))'

/** The inviter still belongs to one of these accounts; the operator always does. */
const IS_VALID = `(invited_by = 'cli'
  OR EXISTS (SELECT 1 FROM members JOIN users ON users.id = user_id WHERE members.account_id IN ${INVITING_ACCOUNTS} AND users.uuid = ${INVITER_UUID})
  OR EXISTS (SELECT 1 FROM api_keys WHERE api_keys.account_id IN ${INVITING_ACCOUNTS} AND api_keys.uuid = ${INVITER_UUID}))`

const SELECT_OPEN = `SELECT ${COLUMNS}, accounts.uuid AS accountUuid, accounts.name AS accountName FROM invitations
  JOIN accounts ON accounts.id = account_id AND disabled_at IS NULL AND deleted_at IS NULL`

const sql = prepareStatements((db) => ({
  list: db.prepare<Invitation, [number, number]>(
    `SELECT ${COLUMNS} FROM invitations WHERE account_id = ? AND expires_at > ? AND ${IS_VALID} ORDER BY id DESC`,
  ),
  byToken: db.prepare<OpenInvitation, [Uint8Array, number]>(
    `${SELECT_OPEN} WHERE token_hash = ? AND expires_at > ? AND ${IS_VALID}`,
  ),
  insert: db.prepare<Invitation, [Uint8Array, number, string, string, Uint8Array, string, number, number]>(
    `INSERT INTO invitations (uuid, account_id, email, role, token_hash, invited_by, expires_at, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING ${COLUMNS}`,
  ),
  deleteOf: db.prepare('DELETE FROM invitations WHERE account_id = ? AND email = ?'),
  delete: db.prepare<{ email: string }, [Uint8Array, number]>(
    'DELETE FROM invitations WHERE uuid = ? AND account_id = ? RETURNING email',
  ),
  take: db.prepare(`DELETE FROM invitations WHERE id = ? AND ${IS_VALID}`),
  accountName: db.prepare<{ name: string }, [number]>('SELECT name FROM accounts WHERE id = ?'),
}))

/** The open invitations of an account, newest first. */
export const listInvitations = (db: Database, accountId: number, now: Millis): Invitation[] =>
  sql(db).list.all(accountId, now)

/**
 * Returns the function that invites. A second invitation of the same address replaces the first, whose link becomes
 * invalid.
 */
export function createInviter(app: App) {
  const mails = createRateLimiter(app.clock)
  const requireRate = (key: string, rate: Rate): void =>
    requireTaken(mails.take(key, 1, rate), 'Too many invitations; wait before the next.')
  return async (actor: Actor, input: { readonly email: string; readonly role: TeamRole }) => {
    const email = parseUserEmail(input.email)
    const { role } = input
    if (role === 'owner') requireOwnerToChangeOwners(actor)
    requireRate(`account ${actor.accountId}`, ACCOUNT_RATE)
    requireRate(`address ${email}`, ADDRESS_RATE)
    const created = await app.commit.write((tx) => {
      const user = findUserByEmail(tx.db, email)
      if (user && findMember(tx.db, actor.accountId, user.uuid)) throw alreadyMember()
      return insertInvitation(app, tx, actor, { email, role })
    })
    return { ...created.invitation, isSent: await mailInvitation(app, created) }
  }
}

/**
 * Invites a user to own a new sub-account, in the transaction that creates it. Never returns whether the mail was sent.
 */
export type InviteOwner = (tx: Tx, actor: Actor, email: string) => void

/**
 * Returns the function that invites owners.
 * @param trackWork gets the sending of the mail. The response does not wait for the mail: otherwise the duration would
 *   reveal whether the address belongs to a user
 */
export function createOwnerInviter(app: App, trackWork: (work: Promise<void>) => void): InviteOwner {
  const mails = createRateLimiter(app.clock)
  return (tx, actor, email) => {
    const created = insertInvitation(app, tx, actor, { email, role: 'owner' })
    tx.afterCommit(() => {
      if (mails.take(email, 1, ADDRESS_RATE).ok) trackWork(mailInvitation(app, created).then(() => undefined))
    })
  }
}

type StoredInvitation = ReturnType<typeof insertInvitation>

function insertInvitation(
  app: App,
  tx: Tx,
  actor: Actor,
  { email, role }: { readonly email: string; readonly role: TeamRole },
) {
  const { token, hash } = createLinkToken()
  const uuid = newUuid()
  // Not `eventTime`: see `startSession`.
  const now = app.clock.now()
  const statements = sql(tx.db)
  statements.deleteOf.run(actor.accountId, email)
  if (listInvitations(tx.db, actor.accountId, now).length >= MAX_INVITATIONS)
    throw conflict(
      'too_many_invitations',
      `An account can have at most ${MAX_INVITATIONS} open invitations; delete one.`,
    )
  const expiresAt = now + days(INVITATION_DAYS)
  const invitation = statements.insert.get(uuid, actor.accountId, email, role, hash, actor.id, expiresAt, now)
  if (!invitation) throw new Error('the invitation was not stored')
  auditChange(app, tx, actor, 'invitation.created', uuid, { email, role })
  return { invitation, accountName: statements.accountName.get(actor.accountId)?.name ?? '', token }
}

/**
 * Resolves with whether the mail was accepted. If not, the invitation is still valid, and inviting again sends another
 * mail.
 */
async function mailInvitation(app: App, { invitation, accountName, token }: StoredInvitation): Promise<boolean> {
  const { accountId, email, role } = invitation
  const name = toPlainName(accountName)
  const host = new URL(app.config.publicUrl).host
  try {
    return await sendSystemMail(app, {
      about: [accountId],
      to: [email],
      subject: `Invitation to ${name === '' ? host : name}`,
      text: `You are invited to join the team${name === '' ? '' : ` of ${name}`} at ${host}, as ${role}.

Accept the invitation within ${INVITATION_DAYS} days:
${formatLink(app.config, JOIN_PATH, token)}

If you did not expect this invitation, ignore this mail.
`,
    })
  } catch (error) {
    app.log.error({ err: error }, 'invitation not sent')
    return false
  }
}

const MAX_SHOWN_NAME_LENGTH = 60

/**
 * A name as our mail may contain it: without any character from which a mail program makes a link, since anyone can be
 * invited.
 */
const toPlainName = (name: string): string =>
  name
    .replace(/[^\p{L}\p{N} '&,-]+/gu, ' ')
    .replace(/ +/g, ' ')
    .trim()
    .slice(0, MAX_SHOWN_NAME_LENGTH)

/** Deletes an invitation. Throws 404 when the account has none with this id. */
export const deleteInvitation = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const uuid = parseUuid(id)
    const found = uuid && sql(tx.db).delete.get(uuid, actor.accountId)
    if (!found) throw notFound('invitation_not_found', 'Invitation not found.')
    auditChange(app, tx, actor, 'invitation.deleted', id, { email: found.email })
  })

/** The open invitation of a link; undefined when it was used or revoked, or has expired. */
export function findInvitation(db: Database, token: string, now: Millis): OpenInvitation | undefined {
  const hash = hashLinkToken(token)
  return (hash && sql(db).byToken.get(hash, now)) ?? undefined
}

/** Consumes an invitation; false when it was just used by someone else, or is no longer valid. */
export const consumeInvitation = (tx: Tx, { id }: Invitation): boolean => sql(tx.db).take.run(id).changes === 1
