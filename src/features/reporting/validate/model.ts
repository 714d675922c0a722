/** @module Wire shapes of validation. */
import { type Static, Type } from '@sinclair/typebox'
import { StrictObject, StringEnum, Text, TextOrNull } from '#platform/http/schemas.ts'

export const ValidationRequest = StrictObject({
  email: Text('Address to validate, without a display name.'),
})

export const DELIVERABLE = ['yes', 'no', 'unknown'] as const

export const ValidationResult = Type.Object({
  email: Text('The address as submitted.'),
  valid: Type.Boolean({
    description:
      'Whether it passes all checks: its syntax is valid, its domain accepts mail, and it is not disposable.',
  }),
  deliverable: StringEnum(DELIVERABLE, {
    description:
      'yes: the domain accepts mail; the mailbox itself is never probed. no: the syntax is invalid, the address is disposable, or the domain does not accept mail. unknown: DNS did not answer.',
  }),
  is_disposable: Type.Boolean({ description: 'Whether its domain offers disposable addresses.' }),
  is_role: Type.Boolean({ description: 'Whether it names a role, such as info or sales, instead of a person.' }),
  is_free: Type.Boolean({ description: 'Whether its domain offers free addresses.' }),
  mx_found: Type.Boolean({
    description: 'Whether DNS has a mail server for the domain; an A or AAAA record suffices (RFC 5321 §5.1).',
  }),
  reason: TextOrNull('Why it is invalid, or why its deliverability is unknown; null otherwise.'),
})
export type ValidationResult = Static<typeof ValidationResult>
