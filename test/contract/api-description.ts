/** @module Reads the API description of a service for tests. */

interface Served {
  readonly paths: unknown
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> }
}

/** Where the two descriptions are: for clients with a key, and for operators and sign-in. */
export const SPEC_PATHS = ['/openapi.json', '/openapi-operator.json'] as const

/** The descriptions as they are served, in one: all paths and all schemas. */
export async function fetchDescription<T>(url: string): Promise<T> {
  const [main, operators] = await Promise.all(
    SPEC_PATHS.map(async (path) => (await (await fetch(`${url}${path}`)).json()) as Served),
  )
  const schemas = { ...operators?.components.schemas, ...main?.components.schemas }
  return {
    ...main,
    paths: { ...(main?.paths as object), ...(operators?.paths as object) },
    components: { ...main?.components, schemas },
  } as T
}

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
