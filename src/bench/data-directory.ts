/** @module Creates the data directory of a benchmark run: an account with a verified domain and a key. */
import { openApp } from '#app/create.ts'
import type { Account } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { vouchForDomain } from '#features/setup/domains/verify.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { SENDER_DOMAIN } from './mails.ts'

/** Stores more in a new data directory. @param domainId UUID of SENDER_DOMAIN */
export type Fill = (app: App, account: Account, domainId: string) => Promise<void>

/** Returns the API key. */
export async function createDataDirectory(config: Config, fill?: Fill): Promise<string> {
  const opened = openApp(config)
  try {
    const { app } = opened
    const account = await createAccount(app, { name: 'Bench', email: 'owner@bench.test', plan: 'unlimited' })
    const actor = toOperatorActor(account)
    const { domain } = await createDomain(app, actor, SENDER_DOMAIN)
    const domainId = formatUuid(domain.uuid)
    await vouchForDomain(app, actor, domainId)
    const { key } = await createApiKey(app, actor, { name: 'bench' })
    await fill?.(app, account, domainId)
    return key
  } finally {
    await opened.close()
  }
}
