/** @module Creates an account with what every account starts with. */

import { type Account, findAccount, insertAccount } from '#features/core/accounts/accounts.ts'
import type { Plan } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditChange } from '#features/core/audit-logs/audit.ts'
import { SCOPES } from '#features/setup/api-keys/scopes.ts'
import { DEFAULT_STREAM, insertStream } from '#features/setup/streams/streams.ts'
import type { Tx } from '#platform/db/commit.ts'
import { invalid } from '#platform/errors.ts'
import { parseName } from '#platform/http/validation.ts'
import { formatUuid, type UuidBytes } from '#platform/ids.ts'
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
