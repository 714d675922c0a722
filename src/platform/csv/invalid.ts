/** @module The error for a CSV body that is not the file the route expects. */
import { type AppError, invalid } from '../errors.ts'

/** 422 `invalid_csv`. */
export const invalidCsv = (message: string): AppError => invalid('body', message, 'invalid_csv')
