/**
 * @module Sub-accounts: accounts with domains, keys, mail and a team of their own that belong to a parent account. The
 * parent creates, changes, disables and deletes them and limits what all of them send; it cannot read their data
 * otherwise. One level deep. Every change has an entry in the audit logs of both; that of the parent, which outlives the
 * sub-account, has no names and addresses. Also creates any account, with what every account starts with.
 */
import type { Database } from 'bun:sqlite'
import { type Static, Type } from '@sinclair/typebox'
import {
  type Account,
  actIn,
  findAccount,
  getAccount,
  insertAccount,
  monthOf,
  readMonthlyUsage,
} from '#features/core/accounts/accounts.ts'
import { requirePlanCapacity } from '#features/core/accounts/limits.ts'
import { PLANS, type Plan, UNLIMITED } from '#features/core/accounts/plans.ts'
import {
  findSubAccount,
  getSubAccountCountStatement,
  requireOpenAccount,
  updateSubAccount,
} from '#features/core/accounts/rows.ts'
import { announceAccessChange, announceSendingChange } from '#features/core/app/account-changes.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange, describeChanges } from '#features/core/audit-logs/audit.ts'
import type { InviteOwner } from '#features/people/team/invitations.ts'
import {
  hashPassword,
  MAX_PASSWORD_LENGTH,
  MIN_PASSWORD_LENGTH,
  requireStrongPassword,
} from '#features/people/team/passwords.ts'
import { createUserWithPassword, findUserByEmail, parseUserEmail } from '#features/people/team/users.ts'
import { insertApiKey } from '#features/setup/api-keys/keys.ts'
import type { ApiKey } from '#features/setup/api-keys/model.ts'
import { SCOPES } from '#features/setup/api-keys/scopes.ts'
import { DEFAULT_STREAM, insertStream } from '#features/setup/streams/streams.ts'
import type { Tx } from '#platform/db/open.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { toWire } from '#platform/http/envelope.ts'
import {
  Count,
  notFoundById,
  OptionalNullable,
  StrictObject,
  StringEnum,
  Text,
  Timestamp,
  Uuid,
} from '#platform/http/schemas.ts'
import { parseName } from '#platform/http/validation.ts'
import { formatUuid, parseUuid, type UuidBytes } from '#platform/ids.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

interface NewAccount {
  readonly name: string
  readonly email: string
  readonly plan: Plan
  /** Of a sub-account. */
  readonly parent?: Actor
  /** Null: that of the plan. */
  readonly monthlyQuota?: number | null
}

/** Creates an account and its stream `transactional`. */
export async function createAccount(app: App, input: NewAccount): Promise<Account> {
  const parsed = { ...parseNewAccount(input), plan: input.plan }
  return app.commit.write((tx) => addAccount(app, tx, parsed))
}

/** Throws 422 for an invalid name or address. */
export function parseNewAccount(input: Pick<NewAccount, 'name' | 'email'>): Pick<NewAccount, 'name' | 'email'> {
  const name = parseName(input.name)
  const email = parseMailbox(input.email)
  if (email.kind === 'invalid') throw invalid('email', `email: ${email.reason}`)
  return { name, email: email.address }
}

/**
 * Creates an account in the caller's transaction.
 * @param input as `parseNewAccount` returns it
 * @param toActor who creates it; default: the operator
 */
export function addAccount(
  app: App,
  tx: Tx,
  { name, email, plan, parent, monthlyQuota = null }: NewAccount,
  toActor: (accountId: number, uuid: UuidBytes) => Actor = (id, uuid) => toOperatorActor({ id, uuid }),
): Account {
  const now = app.eventTime()
  const { id, uuid } = insertAccount(tx, { name, email, plan, parentId: parent?.accountId ?? null, monthlyQuota }, now)
  const account = findAccount(app.config, tx.db, id)
  if (!account) throw new Error('the account was not stored')
  insertStream(tx, id, { slug: DEFAULT_STREAM, name: 'Transactional' }, now)
  const metadata = { name, plan, parent_account_id: parent?.accountUuid }
  auditChange(app, tx, toActor(id, account.uuid), 'account.created', uuid, metadata)
  return account
}

/** The operator at the command line, acting for an account with all rights. */
export const toOperatorActor = ({ id: accountId, uuid }: Pick<Account, 'id' | 'uuid'>): Actor => ({
  accountId,
  accountUuid: formatUuid(uuid),
  type: 'operator',
  id: 'cli',
  scopes: new Set(SCOPES),
})

export const SubAccountRecord = Type.Object(
  {
    id: Uuid({ description: 'Id of the sub-account.' }),
    name: Text('Name.'),
    email: Text('Address of its owner.'),
    plan: Text('Plan: always that of the parent.'),
    monthly_quota: Count('Recipients per calendar month (UTC); 2147483647 is unlimited.'),
    emails_sent_this_month: Count('Recipients accepted this month, minus cancelled ones.'),
    parent_account_id: Uuid({ description: 'Id of the parent account.' }),
    is_active: Type.Boolean({
      description: 'False: requests with its keys and sessions get a 401, and its waiting mail is held.',
    }),
    created_at: Timestamp({ description: 'When it was created.' }),
  },
  { title: 'SubAccount' },
)

const NAME = Type.String({ minLength: 1, maxLength: 200, description: 'Name.' })
const QUOTA = Type.Integer({
  minimum: 0,
  maximum: UNLIMITED,
  description: "Recipients per calendar month (UTC), at most the parent's quota.",
})

export const NewAccountBody = StrictObject({
  name: Text('Name of the account.'),
  email: Text('Address of its owner.'),
  plan: StringEnum(PLANS, { description: 'Its plan.' }),
})

export const NewSubAccountBody = StrictObject({
  name: NAME,
  email: Type.String({ minLength: 3, maxLength: 320, description: 'Address of its owner, who signs in with it.' }),
  password: Type.String({
    maxLength: MAX_PASSWORD_LENGTH * 4,
    description: `Password of its owner, ${MIN_PASSWORD_LENGTH} to ${MAX_PASSWORD_LENGTH} characters.`,
  }),
  monthly_quota: OptionalNullable(QUOTA, {
    description: "Recipients per calendar month (UTC), at most the parent's quota, which is the default.",
  }),
})

export const SubAccountChangeBody = StrictObject(
  {
    name: Type.Optional(NAME),
    monthly_quota: OptionalNullable(QUOTA, {
      description: "Recipients per calendar month (UTC), at most the parent's quota; null: the parent's quota.",
    }),
    is_active: Type.Optional(
      Type.Boolean({
        description:
          'False disables it: requests with its keys and sessions get a 401 immediately, waiting mail is held.',
      }),
    ),
  },
  { description: 'At least one field; fields that are left out keep their value.' },
)

export const SubAccountDeletion = Type.Object({
  message: Type.String({ description: 'What happens now.' }),
  account_id: Uuid({ description: 'Id of the sub-account.' }),
})

/** @param actor of the parent account */
export const subAccountWire = (
  { clock, db }: Pick<App, 'clock' | 'db'>,
  actor: Actor,
  account: Account,
): Static<typeof SubAccountRecord> =>
  toWire(SubAccountRecord, account, {
    emails_sent_this_month: readMonthlyUsage(db, account.id, monthOf(clock.now())),
    parent_account_id: actor.accountUuid,
    is_active: account.disabledAt === null,
  })

/**
 * The sub-account of the actor's account with this id. Throws 404, also for sub-accounts of other accounts and for
 * deleted ones.
 */
export function getSubAccount(app: App, actor: Actor, id: string, db: Database = app.db): Account {
  const uuid = parseUuid(id)
  const account = uuid && findSubAccount(app.config, db, actor.accountId, uuid)
  if (!account) throw notFoundById('account_not_found', 'sub-account')
  return account
}

/**
 * Creates a sub-account with its stream and its owner. Throws 403 when the account is itself a sub-account or its plan
 * allows no more, 422 for a weak password or a quota over the parent's. The response is the same when the address
 * already belongs to a user: that user keeps the password and is invited to own the account. The creator can still find
 * out whether the user existed, by signing in or with a key of the sub-account.
 */
export async function createSubAccount(
  app: App,
  actor: Actor,
  input: Static<typeof NewSubAccountBody>,
  inviteOwner: InviteOwner,
): Promise<Account> {
  const name = parseName(input.name)
  const email = parseUserEmail(input.email)
  const quota = input.monthly_quota ?? undefined
  requireStrongPassword(input.password, email)
  // Checked before the costly password hash, and again in the transaction.
  requireCanCreate(app, app.db, actor, quota)
  const passwordHash = await hashPassword(input.password, actor.accountUuid)
  return app.commit.write((tx) => {
    // The parent may have been deleted during hashing; no one would then delete this sub-account.
    requireOpenAccount(tx.db, actor.accountId)
    const parent = requireCanCreate(app, tx.db, actor, quota)
    const toOwnActor = (id: number, uuid: UuidBytes) => actIn(actor, { id, uuid })
    const subAccount = { name, email, plan: parent.plan, parent: actor, monthlyQuota: quota ?? null }
    const account = addAccount(app, tx, subAccount, toOwnActor)
    const subAccountActor = toOwnActor(account.id, account.uuid)
    if (findUserByEmail(tx.db, email)) inviteOwner(tx, subAccountActor, email)
    else createUserWithPassword(app, tx, subAccountActor, { email, name, passwordHash, role: 'owner' })
    auditChange(app, tx, actor, 'sub_account.created', subAccountActor.accountUuid, { monthly_quota: quota })
    return account
  })
}

/** The parent account; throws when it may not create a sub-account with this quota. */
function requireCanCreate(app: App, db: Database, actor: Actor, quota: number | undefined): Account {
  const parent = getAccount(app.config, db, actor.accountId)
  if (parent.parentId !== null)
    throw new AppError(
      403,
      'sub_accounts_not_allowed',
      'This is a sub-account, and these cannot be nested; use a key of the parent account.',
    )
  requirePlanCapacity(app, { db }, parent.id, 'sub_accounts', getSubAccountCountStatement(db))
  requireQuotaWithin(parent, quota)
  return parent
}

function requireQuotaWithin(parent: Account, quota: number | null | undefined): void {
  if (quota !== undefined && quota !== null && quota > parent.monthlyQuota)
    throw invalid('monthly_quota', `monthly_quota must be at most that of the parent account, ${parent.monthlyQuota}.`)
}

/** Changes the provided fields; once it is disabled, its keys and sessions are rejected. */
export function changeSubAccount(
  app: App,
  actor: Actor,
  id: string,
  change: Static<typeof SubAccountChangeBody>,
): Promise<Account> {
  if (Object.values(change).every((value) => value === undefined))
    throw invalid('body', 'Set at least one of name, monthly_quota and is_active.')
  const name = change.name === undefined ? undefined : parseName(change.name)
  return app.commit.write((tx) => {
    const account = getSubAccount(app, actor, id, tx.db)
    const { is_active: isActive, monthly_quota: monthlyQuota } = change
    requireQuotaWithin(getAccount(app.config, tx.db, actor.accountId), monthlyQuota)
    const now = app.eventTime()
    const isSwitched = isActive !== undefined && isActive !== (account.disabledAt === null)
    const disabledAt = isSwitched ? (isActive ? null : now) : undefined
    updateSubAccount(tx, account, { name, monthlyQuota, disabledAt }, now)
    const changed = { monthly_quota: monthlyQuota, is_active: isActive }
    const before = { name: account.name, monthly_quota: account.monthlyQuota, is_active: account.disabledAt === null }
    const own = { name, ...changed, ...describeChanges(before, { name, ...changed }) }
    auditChange(app, tx, actIn(actor, account), 'account.updated', account.uuid, own)
    // Outlives the sub-account, so it has none of its data.
    const shown = { ...changed, ...describeChanges(before, changed) }
    auditChange(app, tx, actor, 'sub_account.updated', account.uuid, shown)
    if (isSwitched) {
      announceAccessChange(app, tx, account.id)
      announceSendingChange(app, tx, account.id)
    }
    return getSubAccount(app, actor, id, tx.db)
  })
}

/** Deletes a whole account. `along` runs in the same transaction, which is rolled back if `along` throws. */
export type DeleteAccount = (
  app: App,
  actor: Actor,
  account: { readonly id: number; readonly uuid: UuidBytes },
  along?: (tx: Tx) => void,
) => Promise<void>

/** Deletes a sub-account as its owner would. Throws 404. */
export async function deleteSubAccount(
  app: App,
  actor: Actor,
  id: string,
  deleteAccount: DeleteAccount,
): Promise<Account> {
  const account = getSubAccount(app, actor, id)
  await deleteAccount(app, actor, account, (tx) => {
    // Of two concurrent calls, the second finds nothing.
    getSubAccount(app, actor, id, tx.db)
    auditChange(app, tx, actor, 'sub_account.deleted', account.uuid, {})
  })
  return account
}

/** Creates a key of a sub-account, with at most the scopes of the actor. Throws 404. */
export const createSubAccountKey = (
  app: App,
  actor: Actor,
  id: string,
  input: Parameters<typeof insertApiKey>[3],
): Promise<ApiKey & { key: string }> =>
  app.commit.write((tx) => {
    const account = getSubAccount(app, actor, id, tx.db)
    const created = insertApiKey(app, tx, actIn(actor, account), input)
    auditChange(app, tx, actor, 'sub_account.api_key_created', account.uuid, { api_key_id: created.id })
    return created
  })
