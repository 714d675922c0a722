/** @module Wire shapes of validation. */
import { type Static, Type } from '@sinclair/typebox'
import { Nullable, StrictObject, StringEnum } from '#platform/http/schemas.ts'

export const ValidationRequest = StrictObject({
  email: Type.String({ description: 'Address to look at, without a name.' }),
})

export const DELIVERABLE = ['yes', 'no', 'unknown'] as const

export const ValidationResult = Type.Object({
  email: Type.String({ description: 'The address, as it was given.' }),
  valid: Type.Boolean({
    description:
      'Whether it passes all checks: it is an address, its domain takes mail, and it is not to be thrown away.',
  }),
  deliverable: StringEnum(DELIVERABLE, {
    description:
      'yes: the domain takes mail; whether the mailbox exists is never asked. no: it is no address, it is disposable, or the domain takes no mail. unknown: DNS did not answer.',
  }),
  is_disposable: Type.Boolean({ description: 'Whether its domain hands out addresses to throw away.' }),
  is_role: Type.Boolean({ description: 'Whether it names a role, such as info or sales, and no person.' }),
  is_free: Type.Boolean({ description: 'Whether its domain is a provider of free addresses.' }),
  mx_found: Type.Boolean({
    description:
      'Whether DNS names a mail server for the domain; an address of the domain itself is one too (RFC 5321 §5.1).',
  }),
  reason: Nullable(Type.String(), {
    description: 'Why it is not valid, or not known to be deliverable; null otherwise.',
  }),
})
export type ValidationResult = Static<typeof ValidationResult>
