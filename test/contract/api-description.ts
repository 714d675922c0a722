/** @module Reads the API description of a service for tests. */

interface Served {
  readonly paths: unknown
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> }
}

/** The description as it is served. */
export const fetchDescription = async <T>(url: string): Promise<T> =>
  (await (await fetch(`${url}/openapi.json`)).json()) as T

/** A copy of a part of a description, with the shared schemas in the place of the references to them. */
export function resolveSchemas<T>(part: T, { components }: Pick<Served, 'components'>): T {
  const resolve = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(resolve)
    if (typeof value !== 'object' || value === null) return value
    const name = '$ref' in value && /^#\/components\/schemas\/(\w+)$/.exec(String(value.$ref))?.[1]
    if (name) return { ...(resolve(components.schemas[name]) as object), ...value, $ref: undefined }
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, resolve(inner)]))
  }
  return resolve(part) as T
}
