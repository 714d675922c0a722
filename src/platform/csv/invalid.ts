/** @module The error of a body that is CSV by its type and cannot be read as the file that the route expects. */
import { type AppError, invalid } from '../errors.ts'

/** 422 `invalid_csv`. */
export const invalidCsv = (message: string): AppError => invalid('body', message, 'invalid_csv')
