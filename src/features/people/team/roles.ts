/** @module The roles of a team, from all to looking only, and the scopes that each has. Knows no user. */
import type { Actor, TeamRole } from '#features/core/app/app.ts'
import { ADMIN_SCOPE, SCOPES } from '#features/setup/api-keys/scopes.ts'
import { AppError } from '#platform/errors.ts'

export const ROLES = ['owner', 'admin', 'developer', 'viewer'] as const satisfies readonly TeamRole[]

const ADMIN_ONLY_SCOPES: readonly string[] = [ADMIN_SCOPE, 'sub_accounts:manage']

const SCOPES_BY_ROLE: Readonly<Record<TeamRole, ReadonlySet<string>>> = {
  owner: new Set(SCOPES),
  admin: new Set(SCOPES),
  developer: new Set(SCOPES.filter((scope) => !ADMIN_ONLY_SCOPES.includes(scope))),
  viewer: new Set(SCOPES.filter((scope) => scope.endsWith(':read'))),
}

export const scopesOf = (role: TeamRole): ReadonlySet<string> => SCOPES_BY_ROLE[role]

export const isRole = (text: string): text is TeamRole => ROLES.some((role) => role === text)

const insufficientRole = (message: string): AppError => new AppError(403, 'insufficient_role', message)

/** What a user is told who lacks a scope; undefined for a key, which is told so by its scope. */
export const findRoleRefusal = ({ type, role }: Actor): AppError | undefined =>
  type === 'user'
    ? insufficientRole(`Your role, ${role}, does not allow this; ask an owner of the account.`)
    : undefined

/** The 403 for what only owners do; undefined for an owner, for a key, which has no role, and for the operator. */
export const findOwnerRefusal = ({ type, role }: Actor): AppError | undefined =>
  type === 'user' && role !== 'owner' ? insufficientRole('Only an owner of the account may do this.') : undefined

/** Throws 403 unless an owner, or the operator, acts: a key stands for an administrator, who could make himself an owner with one. */
export function requireOwnerToChangeOwners(actor: Actor): void {
  if (actor.type === 'api_key') throw insufficientRole('Only an owner who is signed in may make or change owners.')
  const refusal = findOwnerRefusal(actor)
  if (refusal) throw refusal
}
