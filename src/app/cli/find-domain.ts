/** @module Finds the domain that an operator names by name or id, with its account. Never writes. */
import type { Actor, App } from '#features/core/app/app.ts'
import { type Domain, findDomainByName, getDomain } from '#features/setup/domains/domains.ts'
import { validateDomainName } from '#features/setup/domains/name.ts'
import { AppError, notFound } from '#platform/errors.ts'
import { parseUuid } from '#platform/ids.ts'
import { resolveOwner } from '../find-account.ts'
import type { AccountOption } from './options.ts'

export interface DomainInput extends AccountOption {
  /** Name or id. */
  readonly domain: string
}

export const toDomainInput = (domain: string, { account }: AccountOption): DomainInput => ({
  domain,
  account,
})

/** The domain, and the actor of its account. Throws 404, and 409 if several accounts have it and none is named. */
export function requireDomain(
  app: App,
  { account, domain: requested }: DomainInput,
): { readonly actor: Actor; readonly domain: Domain } {
  const actor = resolveOwner(app, account, (id) => findDomain(app, id, requested) !== undefined)
  const domain = findDomain(app, actor.accountId, requested)
  if (!domain)
    throw notFound(
      'domain_not_found',
      `Domain ${requested} not found in this account; \`tassis domains list\` shows all, \`tassis domains add\` adds one.`,
    )
  return { actor, domain }
}

function findDomain({ db }: Pick<App, 'db'>, accountId: number, requested: string): Domain | undefined {
  if (parseUuid(requested)) return findDomainById({ db }, accountId, requested)
  const name = validateDomainName(requested)
  return name.kind === 'ok' ? findDomainByName(db, accountId, name.domain) : undefined
}

function findDomainById({ db }: Pick<App, 'db'>, accountId: number, id: string): Domain | undefined {
  try {
    return getDomain(db, accountId, id)
  } catch (error) {
    if (error instanceof AppError && error.status === 404) return undefined
    throw error
  }
}
