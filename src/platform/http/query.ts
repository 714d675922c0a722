/**
 * @module Checks the names of query parameters: an API route accepts only the parameters that it declares, each at most
 * once.
 */
import type { TSchema } from '@sinclair/typebox'
import type { ErrorDetail } from '../errors.ts'
import { MAX_DETAILS, shortenField } from './validation.ts'

/** The parameters that a query schema declares; empty when the route takes no query. */
export const queryNamesOf = (schema: unknown): readonly string[] =>
  Object.keys((schema as TSchema | undefined)?.['properties'] ?? {})

/** One error for each unknown or repeated parameter, at most MAX_DETAILS. */
export function checkQueryNames(url: string, known: readonly string[]): readonly ErrorDetail[] {
  const start = url.indexOf('?')
  if (start === -1) return []
  const details = new Map<string, string>()
  const seen = new Set<string>()
  for (const name of new URLSearchParams(url.slice(start)).keys()) {
    if (!known.includes(name))
      details.set(shortenField(name) || 'query', `is not a known query parameter; ${describeKnownNames(known)}`)
    else if (seen.has(name)) details.set(name, 'must be given only once')
    seen.add(name)
    if (details.size >= MAX_DETAILS) break
  }
  return [...details].map(([field, message]) => ({ field, message }))
}

const describeKnownNames = (known: readonly string[]): string =>
  known.length === 0 ? 'this endpoint takes none' : `this endpoint takes ${known.join(', ')}`
