/** @module The roles of a team, from full access to outcomes only, and the scopes of each. Knows no user. */
import type { Actor, TeamRole } from '#features/core/app/app.ts'
import { SUPPORT_RIGHT } from '#features/core/app/http.ts'
import { ADMIN_SCOPE, SCOPES } from '#features/setup/api-keys/scopes.ts'
import { AppError } from '#platform/errors.ts'

export const ROLES = ['owner', 'admin', 'developer', 'viewer', 'support'] as const satisfies readonly TeamRole[]

const ADMIN_ONLY_SCOPES: readonly string[] = [ADMIN_SCOPE, 'sub_accounts:manage']

const SCOPES_BY_ROLE: Readonly<Record<TeamRole, ReadonlySet<string>>> = {
  owner: new Set(SCOPES),
  admin: new Set(SCOPES),
  developer: new Set(SCOPES.filter((scope) => !ADMIN_ONLY_SCOPES.includes(scope))),
  viewer: new Set(SCOPES.filter((scope) => scope.endsWith(':read'))),
  // No scope, so that whatever asks for one is closed to it.
  support: new Set([SUPPORT_RIGHT]),
}

export const scopesOf = (role: TeamRole): ReadonlySet<string> => SCOPES_BY_ROLE[role]

export const isRole = (text: string): text is TeamRole => ROLES.some((role) => role === text)

const insufficientRole = (message: string): AppError => new AppError(403, 'insufficient_role', message)

/** The 403 for a user whose role lacks a scope; undefined for a key, whose missing scope has its own error. */
export const findRoleRefusal = ({ type, role }: Actor): AppError | undefined =>
  type === 'user'
    ? insufficientRole(`Your role, ${role}, does not allow this; ask an owner of the account.`)
    : undefined

/**
 * The 403 for actions reserved to owners; undefined for an owner, for a key, which has no role, and for the operator.
 */
export const findOwnerRefusal = ({ type, role }: Actor): AppError | undefined =>
  type === 'user' && role !== 'owner' ? insufficientRole('Only an owner of the account may do this.') : undefined

/**
 * Throws 403 unless the actor is an owner or the operator: a key has an administrator's rights, and an administrator
 * could use one to become an owner.
 */
export function requireOwnerToChangeOwners(actor: Actor): void {
  if (actor.type === 'api_key') throw insufficientRole('Only a signed-in owner can add or change owners.')
  const refusal = findOwnerRefusal(actor)
  if (refusal) throw refusal
}
