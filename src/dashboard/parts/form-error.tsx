/** @module What the API says is wrong, beside its field or below the form. */
import { TassisError } from '#client/client.ts'
import { ErrorNotice } from './page.tsx'

/** The message for a field, or for a part of it, in a 422; undefined for other errors. */
export function findFieldError(error: unknown, field: string): string | undefined {
  if (!(error instanceof TassisError) || error.status !== 422) return undefined
  return error.details.find((detail) => isOf(detail.field, field))?.message
}

const isOf = (part: string | undefined, field: string): boolean =>
  part !== undefined && (part === field || part.startsWith(`${field}.`) || part.startsWith(`${field}[`))

interface FormErrorProps {
  readonly error: unknown
  /** Fields that show their errors themselves. */
  readonly fields?: readonly string[]
}

/** Shows nothing without an error, or if fields show all of it. */
export function FormError({ error: thrown, fields = [] }: FormErrorProps) {
  const error = omitFieldErrors(thrown, fields)
  return error ? <ErrorNotice error={error} /> : null
}

/** The error, unless every part of it is shown beside one of these fields. */
function omitFieldErrors(error: unknown, fields: readonly string[]): unknown {
  if (!(error instanceof TassisError) || !fields.some((field) => findFieldError(error, field) !== undefined))
    return error
  return error.details.every(({ field: part }) => fields.some((field) => isOf(part, field))) ? undefined : error
}
