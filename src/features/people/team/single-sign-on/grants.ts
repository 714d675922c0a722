/** @module Which roles an identity provider gives: the rules of `oidcRoles`, applied to what it says of a person. */
import type { TeamRole } from '#features/core/app/app.ts'
import { parseUuid } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { isRole, ROLES } from '../roles.ts'

interface RoleRule {
  /** A value of the claim, or `@` and a domain. */
  readonly who: string
  readonly role: TeamRole
  /** Public id of the account; undefined: that of the setting. */
  readonly account: string | undefined
}

/** Undefined for a text that is no rule. */
export function parseRoleRule(text: string): RoleRule | undefined {
  const [, who = '', role = '', account] = /^(.{1,200})=([a-z]+)(?:@(.+))?$/.exec(text) ?? []
  if (!isRole(role) || (account !== undefined && !parseUuid(account))) return undefined
  return { who: who.startsWith('@') ? who.toLowerCase() : who, role, account: account?.toLowerCase() }
}

/** Longer lists of a person's groups are cut: each value is compared with each rule. */
const MAX_VALUES = 1000

/** The values of a claim. A name with dots is also the path of a claim inside of others. */
export function readClaimValues(claims: Readonly<Record<string, unknown>>, name: string): readonly string[] {
  const found = Object.hasOwn(claims, name)
    ? claims[name]
    : name.split('.').reduce<unknown>((value, key) => (isObject(value) ? value[key] : undefined), claims)
  const values: readonly unknown[] = Array.isArray(found) ? found.slice(0, MAX_VALUES) : [found]
  return values.filter((value) => typeof value === 'string')
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/**
 * The highest role in each account, by the public id of the account.
 * @param values of the claim
 * @param email which the provider says is verified; undefined: rules for domains give nothing
 * @param account where no other is named; undefined: it is not known, and a role there is that of `undefined`
 */
export function findGrants(
  { oidcRoles }: Pick<Config, 'oidcRoles'>,
  values: readonly string[],
  email: string | undefined,
  account: string | undefined,
): Map<string | undefined, TeamRole> {
  const rules = oidcRoles.flatMap((text) => parseRoleRule(text) ?? [])
  if (rules.every(({ who }) => who.startsWith('@'))) {
    for (const role of ROLES) rules.push({ who: role, role, account: undefined })
  }
  const domain = email?.slice(email.lastIndexOf('@'))
  const grants = new Map<string | undefined, TeamRole>()
  for (const { who, role, account: to = account } of rules) {
    if (!(who.startsWith('@') ? who === domain : values.includes(who))) continue
    const before = grants.get(to)
    if (before === undefined || ROLES.indexOf(role) < ROLES.indexOf(before)) grants.set(to, role)
  }
  return grants
}
