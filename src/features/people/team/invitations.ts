/**
 * @module Invitations into a team: made by who administers the account, sent by mail, and accepted by whoever has the link of the mail, once. Who has no
 * password yet sets one; everybody else shows that he is the user of that address. The token is in the mail alone. Good only as long as the user or the key
 * that made it is still there: a leaked key that is deleted leaves nobody in.
 */
import type { Database } from 'bun:sqlite'
import type { Actor, App, TeamRole } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { sendSystemMail } from '#features/sending/system-mail/send.ts'
import type { Millis } from '#platform/clock.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepared } from '#platform/db/open.ts'
import { conflict, notFound, tooMany } from '#platform/errors.ts'
import { createRateLimiter, type Rate } from '#platform/http/rate-limit.ts'
import { formatUuid, newUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import { days } from '#platform/units.ts'
import { expiresWithin, hashOfLinkToken, JOIN_PATH, linkTo, newLinkToken } from './links.ts'
import { requireOwnerForOwners } from './roles.ts'
import { findMember, findUserByEmail, parseUserEmail } from './users.ts'

export interface Invitation {
  readonly id: number
  readonly uuid: UuidBytes
  readonly accountId: number
  readonly email: string
  readonly role: TeamRole
  /** Public id of who invited. */
  readonly invitedBy: string
  readonly expiresAt: Millis
  readonly createdAt: Millis
}

/** An invitation, as whoever has its link sees it. */
export interface OpenInvitation extends Invitation {
  readonly accountUuid: UuidBytes
  readonly accountName: string
}

export const INVITATION_DAYS = 7
export const MOST_INVITATIONS = 50
const MOST_TRIMMED = 1000
/** Mails of one account, and to one address: nobody is to be flooded under the name of this service. */
const OF_ACCOUNT: Rate = { burst: MOST_INVITATIONS, ratePerSecond: MOST_INVITATIONS / 3600 }
const TO_ADDRESS: Rate = { burst: 5, ratePerSecond: 5 / 3600 }

const COLUMNS = `invitations.id, invitations.uuid, account_id AS accountId, invitations.email, role, invited_by AS invitedBy, expires_at AS expiresAt,
  invitations.created_at AS createdAt`

const INVITER = "unhex(replace(invited_by, '-', ''))"

/** The account and its parent, which invites the owner of a sub-account. */
const INVITING = '(invitations.account_id, (SELECT parent_id FROM accounts WHERE id = invitations.account_id))'

/** Who invited still belongs to one of these; the operator always does. */
const STANDS = `(invited_by = 'cli'
  OR EXISTS (SELECT 1 FROM members JOIN users ON users.id = user_id WHERE members.account_id IN ${INVITING} AND users.uuid = ${INVITER})
  OR EXISTS (SELECT 1 FROM api_keys WHERE api_keys.account_id IN ${INVITING} AND api_keys.uuid = ${INVITER}))`

const OPEN = `SELECT ${COLUMNS}, accounts.uuid AS accountUuid, accounts.name AS accountName FROM invitations
  JOIN accounts ON accounts.id = account_id AND disabled_at IS NULL AND deleted_at IS NULL`

const sql = prepared((db) => ({
  list: db.prepare<Invitation, [number, number, number]>(
    `SELECT ${COLUMNS} FROM invitations WHERE account_id = ? AND expires_at > ? AND expires_at <= ? AND ${STANDS} ORDER BY id DESC`,
  ),
  byToken: db.prepare<OpenInvitation, [Uint8Array, number, number]>(
    `${OPEN} WHERE token_hash = ? AND expires_at > ? AND expires_at <= ? AND ${STANDS}`,
  ),
  insert: db.prepare<Invitation, [Uint8Array, number, string, string, Uint8Array, string, number, number]>(
    `INSERT INTO invitations (uuid, account_id, email, role, token_hash, invited_by, expires_at, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING ${COLUMNS}`,
  ),
  deleteOf: db.prepare('DELETE FROM invitations WHERE account_id = ? AND email = ?'),
  delete: db.prepare<{ email: string }, [Uint8Array, number]>(
    'DELETE FROM invitations WHERE uuid = ? AND account_id = ? RETURNING email',
  ),
  take: db.prepare(`DELETE FROM invitations WHERE id = ? AND ${STANDS}`),
  trim: db.prepare(
    `DELETE FROM invitations WHERE id IN (SELECT id FROM invitations WHERE expires_at <= ? LIMIT ${MOST_TRIMMED})`,
  ),
  accountName: db.prepare<{ name: string }, [number]>('SELECT name FROM accounts WHERE id = ?'),
}))

/** The open ones of an account, newest first. */
export const listInvitations = (db: Database, accountId: number, now: Millis): Invitation[] =>
  sql(db).list.all(accountId, ...expiresWithin(now, days(INVITATION_DAYS)))

export type Invite = (
  actor: Actor,
  input: { readonly email: string; readonly role: TeamRole },
) => Promise<Invitation & { readonly isSent: boolean }>

/** The function that invites. Another invitation of the same address takes the place of the first, whose link is then void. */
export function createInvite(app: App): Invite {
  const mails = createRateLimiter(app.clock)
  const requireRoom = (key: string, rate: Rate): void => {
    const decision = mails.take(key, 1, rate)
    if (!decision.ok)
      throw tooMany(
        'rate_limited',
        'There were too many invitations; wait before the next.',
        decision.retryAfterSeconds,
      )
  }
  return async (actor, input) => {
    const email = parseUserEmail(input.email)
    const { role } = input
    if (role === 'owner') requireOwnerForOwners(actor)
    requireRoom(`account ${actor.accountId}`, OF_ACCOUNT)
    requireRoom(`address ${email}`, TO_ADDRESS)
    const made = await app.commit.write((tx) => {
      const user = findUserByEmail(tx.db, email)
      if (user && findMember(tx.db, actor.accountId, user.uuid))
        throw conflict(
          'already_member',
          'This user belongs to the team already; PATCH /v1/team/members/{id} changes the role.',
        )
      return insertInvitation(app, tx, actor, { email, role })
    })
    return { ...made.invitation, isSent: await mailInvitation(app, made) }
  }
}

/** Invites a user to own a new sub-account, in the transaction that makes it. Never tells whether the mail left. */
export type InviteOwner = (tx: Tx, actor: Actor, email: string) => void

/**
 * The function that invites owners.
 * @param later gets the sending of the mail: were it waited for, the time of the answer would tell who is a user
 */
export function createInviteOwner(app: App, later: (work: Promise<void>) => void): InviteOwner {
  const mails = createRateLimiter(app.clock)
  return (tx, actor, email) => {
    const made = insertInvitation(app, tx, actor, { email, role: 'owner' })
    tx.afterCommit(() => {
      if (mails.take(email, 1, TO_ADDRESS).ok) later(mailInvitation(app, made).then(() => undefined))
    })
  }
}

interface NewInvitation {
  readonly invitation: Invitation
  readonly accountName: string
  readonly token: string
}

function insertInvitation(
  app: App,
  tx: Tx,
  actor: Actor,
  { email, role }: { readonly email: string; readonly role: TeamRole },
): NewInvitation {
  const { token, hash } = newLinkToken()
  const uuid = newUuid()
  // Not `eventTime`: see `startSession`.
  const now = app.clock.now()
  const statements = sql(tx.db)
  statements.deleteOf.run(actor.accountId, email)
  if (listInvitations(tx.db, actor.accountId, now).length >= MOST_INVITATIONS)
    throw conflict('too_many_invitations', `An account has at most ${MOST_INVITATIONS} open invitations; delete one.`)
  const expiresAt = now + days(INVITATION_DAYS)
  const invitation = statements.insert.get(uuid, actor.accountId, email, role, hash, actor.id, expiresAt, now)
  if (!invitation) throw new Error('the invitation was not stored')
  audit(app, tx, actor, {
    action: 'invitation.created',
    resourceType: 'invitation',
    resourceId: formatUuid(uuid),
    metadata: { email, role },
  })
  return { invitation, accountName: statements.accountName.get(actor.accountId)?.name ?? '', token }
}

/** Tells whether the mail left; the invitation stands in any case, and can be made again. */
async function mailInvitation(app: App, { invitation, accountName, token }: NewInvitation): Promise<boolean> {
  const { accountId, email, role } = invitation
  const name = harmless(accountName)
  const where = new URL(app.config.publicUrl).host
  try {
    return await sendSystemMail(app, {
      about: [accountId],
      to: email,
      subject: `Invitation to ${name === '' ? where : name}`,
      text: `You are invited to the team${name === '' ? '' : ` of ${name}`} at ${where}, as ${role}.

Accept it here within ${INVITATION_DAYS} days:
${linkTo(app.config, JOIN_PATH, token)}

If you do not know why you get this, do nothing.
`,
    })
  } catch (error) {
    app.log.error({ err: error }, 'an invitation was not sent')
    return false
  }
}

const LONGEST_SHOWN = 60

/** A name as it may stand in our mail: without anything that a mail program would make a link of, since anybody can be invited. */
const harmless = (name: string): string =>
  name
    .replace(/[^\p{L}\p{N} '&,-]+/gu, ' ')
    .replace(/ +/g, ' ')
    .trim()
    .slice(0, LONGEST_SHOWN)

/** Takes an invitation back. Throws 404 when the account has none with this id. */
export const deleteInvitation = (app: App, actor: Actor, id: string): Promise<void> =>
  app.commit.writeFromReserve((tx) => {
    const uuid = parseUuid(id)
    const found = uuid && sql(tx.db).delete.get(uuid, actor.accountId)
    if (!found) throw notFound('invitation_not_found', 'There is no invitation with this id.')
    audit(app, tx, actor, {
      action: 'invitation.deleted',
      resourceType: 'invitation',
      resourceId: id,
      metadata: { email: found.email },
    })
  })

/** The open invitation of a link; undefined when it was used, taken back or is too old. */
export function findInvitation(db: Database, token: string, now: Millis): OpenInvitation | undefined {
  const hash = hashOfLinkToken(token)
  return (hash && sql(db).byToken.get(hash, ...expiresWithin(now, days(INVITATION_DAYS)))) ?? undefined
}

/** Uses an invitation up; false when somebody else just did, or it is good no longer. */
export const takeInvitation = (tx: Tx, { id }: Invitation): boolean => sql(tx.db).take.run(id).changes === 1

/** Removes invitations that are too old, some at a time. */
export const trimInvitations = (tx: Tx, now: Millis): number => sql(tx.db).trim.run(now).changes
