/** @module Creates an account with what every account starts with. */

import { type Account, findAccount, insertAccount } from '#features/core/accounts/accounts.ts'
import type { Plan } from '#features/core/accounts/plans.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { SCOPES } from '#features/setup/api-keys/scopes.ts'
import { DEFAULT_STREAM, insertStream } from '#features/setup/streams/streams.ts'
import { invalid } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

const MAX_NAME_LENGTH = 200

/** Creates an account and its stream `transactional`. */
export async function createAccount(app: App, input: { name: string; email: string; plan: Plan }): Promise<Account> {
  const name = input.name.trim()
  if (name === '' || name.length > MAX_NAME_LENGTH)
    throw invalid('name', `A name must have 1 to ${MAX_NAME_LENGTH} characters.`)
  const email = parseMailbox(input.email)
  if (email.kind === 'invalid') throw invalid('email', `email: ${email.reason}`)
  const now = app.eventTime()
  return app.commit.write((tx) => {
    const { id, uuid } = insertAccount(tx, { name, email: email.address, plan: input.plan }, now)
    insertStream(tx, id, { slug: DEFAULT_STREAM, name: 'Transactional' }, now)
    audit(app, tx, createOperatorActor(id, uuid), {
      action: 'account.created',
      resourceType: 'account',
      resourceId: uuid,
      metadata: { name, plan: input.plan },
    })
    const account = findAccount(app.config, tx.db, id)
    if (!account) throw new Error('the account was not stored')
    return account
  })
}

const createOperatorActor = (accountId: number, accountUuid: string): Actor => ({
  accountId,
  accountUuid,
  type: 'operator',
  id: 'cli',
  scopes: new Set(SCOPES),
})

/** The operator at the command line, acting for an account with all rights. */
export const toOperatorActor = (account: Pick<Account, 'id' | 'uuid'>): Actor =>
  createOperatorActor(account.id, formatUuid(account.uuid))
