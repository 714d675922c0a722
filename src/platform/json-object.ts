/** @module Objects in parsed JSON. */
import { attempt } from './errors.ts'

export type JsonObject = Readonly<Record<string, unknown>>

export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The object of a JSON text; undefined for any other text. */
export function parseJsonObject(text: string): JsonObject | undefined {
  const value: unknown = attempt(() => JSON.parse(text))
  return isJsonObject(value) ? value : undefined
}

/** The object without its fields that are undefined. */
export const withoutUndefined = <T>(object: { readonly [Name in keyof T]: T[Name] | undefined }): T =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as T
