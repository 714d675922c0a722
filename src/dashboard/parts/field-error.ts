/** @module The error of one field of a form. */
import { ApiError } from '../api/client.ts'

/** The message for a field in a 422; undefined for other errors. */
export function findFieldError(error: unknown, field: string): string | undefined {
  if (!(error instanceof ApiError) || error.status !== 422) return undefined
  return error.details.find((detail) => detail.field === field)?.message
}
