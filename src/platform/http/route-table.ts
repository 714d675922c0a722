/**
 * @module The server's rules for routes, read once from the composed app: who may call them, how their input is
 * checked, what their responses may contain, which methods a path has.
 */

import { Kind, type TSchema, Type } from '@sinclair/typebox'
import type { ErrorDetail } from '../errors.ts'
import { type AccessDetail, LOCATED_AT, parseScopes } from './access.ts'
import { BODY_FORMAT, type BodyFormat } from './body.ts'
import { createFieldFilter, type FieldFilter } from './response-shape.ts'
import { type Check, createCheck, MAX_DETAILS, shortenField } from './validation.ts'

/** More differences are another word. */
const MAX_DISTANCE = 3
const MAX_PATH_LENGTH = 120

/**
 * Returns the pattern most like the path, such as `/v1/emails/{id}`; undefined when none is alike. Understands a path
 * without `/v1`, below `/api`, and with underscores.
 * @param patterns of Elysia
 */
export function findNearestRoute(path: string, patterns: readonly string[]): string | undefined {
  const plain = path
    .slice(0, MAX_PATH_LENGTH)
    .toLowerCase()
    .replaceAll('_', '-')
    .replace(/^\/api(?=\/)/, '')
  const segments = (plain.startsWith('/v1/') ? plain : `/v1${plain}`).split('/').filter((segment) => segment !== '')
  const [nearest] = patterns
    .map((pattern) => ({ pattern, distance: measureDistance(segments, pattern.split('/').slice(1)) }))
    .filter(({ distance }) => distance <= MAX_DISTANCE)
    .sort((a, b) => a.distance - b.distance)
  return nearest?.pattern.replaceAll(/:(\w+)/g, '{$1}')
}

/** The differences of all segments; a parameter is like any segment. */
function measureDistance(segments: readonly string[], pattern: readonly string[]): number {
  if (segments.length !== pattern.length) return Number.POSITIVE_INFINITY
  const distances = pattern.map((name, index) => {
    const distance = name.startsWith(':') ? 0 : countEdits(segments[index] ?? '', name)
    // A short word that differs in more than a third of its letters is another one.
    return distance * 3 > name.length ? Number.POSITIVE_INFINITY : distance
  })
  return distances.reduce((sum, distance) => sum + distance, 0)
}

/** The number of letters to insert, remove or replace (Levenshtein); infinite when the lengths differ by too many. */
function countEdits(from: string, to: string): number {
  if (Math.abs(from.length - to.length) > MAX_DISTANCE) return Number.POSITIVE_INFINITY
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1]
    for (let at = 0; at < to.length; at++)
      next.push(Math.min((row[at] ?? 0) + (letter === to[at] ? 0 : 1), (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1))
    row = next
  }
  return row[to.length] ?? 0
}

/** The parameters that a query schema declares; empty when the route takes no query. */
const queryNamesOf = (schema: unknown): readonly string[] =>
  Object.keys((schema as TSchema | undefined)?.['properties'] ?? {})

/** One error for each unknown or repeated parameter, at most MAX_DETAILS. */
function checkQueryNames(url: string, known: readonly string[]): readonly ErrorDetail[] {
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

export interface RouteRules {
  /** Undefined: the route is public. Empty: any key may call the route. Several: a caller needs all of them. */
  readonly requiredScopes: readonly string[] | undefined
  readonly access: AccessDetail
  /** Whether the route changes something; a session cookie alone is then not enough. */
  readonly isMutation: boolean
  readonly checkBody: Check | undefined
  readonly bodyFormat: BodyFormat
  /** Whether a field of the body may have any names; true where no schema says so. */
  readonly isFreeForm: boolean
  /** An absent body counts as `{}`, so that errors can name missing fields. */
  readonly isBodyObject: boolean
  /** Returns the errors of the query string; `url` is the request's. */
  readonly checkQuery: (query: unknown, url: string) => readonly ErrorDetail[]
  /** Whether a repeated request with the same idempotency key gets the first response again. */
  readonly takesIdempotencyKey: boolean
  /**
   * Whether the server itself stores the response to a request with an idempotency key, because the route creates
   * something.
   */
  readonly isRepeatable: boolean
  /** Where what the route creates is read, below the path of the service; undefined: at the path of the route. */
  readonly locatedAt: string | undefined
  /** Whether the response is a page of rows. */
  readonly isList: boolean
  readonly checkParams: Check | undefined
  /** By status. */
  readonly fieldFilters: ReadonlyMap<number, FieldFilter>
  /** By status, for strict clients; created at the first use, because most services have none. */
  readonly strictFilters: () => ReadonlyMap<number, FieldFilter>
}

/** The relevant part of a route of a composed Elysia app. */
export interface ComposedRoute {
  readonly method: string
  readonly path: string
  readonly hooks: unknown
}

interface RouteHooks {
  readonly body?: unknown
  readonly query?: unknown
  readonly params?: unknown
  readonly response?: unknown
  readonly detail?: AccessDetail & {
    readonly [BODY_FORMAT]?: BodyFormat
    readonly [LOCATED_AT]?: string
    readonly parameters?: readonly { readonly name?: string }[]
  }
}

const takesOwnKey = (parameters: readonly { readonly name?: unknown }[] = []): boolean =>
  parameters.some(({ name }) => name === 'Idempotency-Key')

/** A POST of /v1 that answers 201 or 202, and stores no idempotency keys itself, as sends do. */
export const isRepeatableCreation = (
  method: string,
  path: string,
  { detail, response }: { readonly detail?: RouteHooks['detail']; readonly response?: unknown },
): boolean =>
  method.toUpperCase() === 'POST' &&
  isOwnApiPath(path) &&
  typeof response === 'object' &&
  response !== null &&
  (201 in response || 202 in response) &&
  !takesOwnKey(detail?.parameters)

const NO_FIELDS = Type.Object({}, { additionalProperties: false })

export const isOwnApiPath = (path: string): boolean => path.startsWith('/v1/') || path === '/v1'

export type RouteTable = ReturnType<typeof createRouteTable>

/**
 * Throws when a route under /v1 or of a dialect does not declare who may call it.
 * @param isDialectPath whether a path belongs to another provider's interface
 */
export function createRouteTable(
  routes: readonly ComposedRoute[],
  isDialectPath: (path: string) => boolean = () => false,
) {
  const isApiPath = (path: string): boolean => isOwnApiPath(path) || isDialectPath(path)
  const rules = new Map<string, Map<string, RouteRules>>()
  const publicApi = new Set<string>()
  for (const { method, path, hooks } of routes) {
    const route = (hooks ?? {}) as RouteHooks
    const requiredScopes = readRequiredScopes(method, path, route, isApiPath(path))
    if (requiredScopes === undefined && isApiPath(path)) publicApi.add(`${method} ${removeTrailingSlash(path)}`)
    const methods = rules.get(path) ?? new Map<string, RouteRules>()
    rules.set(path, methods)
    const bodyFormat = route.detail?.[BODY_FORMAT] ?? (isApiPath(path) ? 'json' : 'json-or-form')
    // An API route without fields refuses a body with fields: a client must not believe that its fields have an effect.
    const body = route.body ?? (bodyFormat === 'json' && isOwnApiPath(path) ? NO_FIELDS : undefined)
    methods.set(method, {
      requiredScopes,
      access: route.detail ?? {},
      isMutation: method !== 'GET' || route.detail?.['x-changes'] === true,
      checkBody: createPartCheck(body, 'body', method, path),
      bodyFormat,
      isFreeForm: !isSchema(body) || hasFreeForm(body),
      isBodyObject: isSchema(body) && body['type'] === 'object',
      checkQuery: createQueryCheck(method, path, route.query),
      takesIdempotencyKey: takesOwnKey(route.detail?.parameters),
      isRepeatable:
        bodyFormat === 'json' && (requiredScopes ?? []).length > 0 && isRepeatableCreation(method, path, route),
      locatedAt: route.detail?.[LOCATED_AT],
      isList: method === 'GET' && isSchema(route.query) && route.query['properties']?.per_page !== undefined,
      checkParams: createPartCheck(route.params, 'path', method, path),
      fieldFilters: createFieldFilters(route.response, false),
      strictFilters: once(() => createFieldFilters(route.response, true)),
    })
  }
  const patterns = [...rules].map(([path, methods]) => ({ matches: toPathPattern(path), methods: [...methods.keys()] }))
  const streams = [...rules].flatMap(([path, methods]) =>
    [...methods].flatMap(([method, { bodyFormat }]) =>
      bodyFormat === 'csv-stream' || bodyFormat === 'bytes' ? [{ method, matches: toPathPattern(path) }] : [],
    ),
  )

  const ownPatterns = [...rules.keys()].filter(isOwnApiPath).map(removeTrailingSlash)

  return {
    /** Whether a path is part of /v1 or of a dialect, not a page. */
    isApiPath,
    /** The route that a client probably meant by a path that no route has. */
    findNearest: (path: string) => findNearestRoute(path, ownPatterns),
    /** The rules of the route with this pattern; HEAD has those of GET. */
    rulesOf(method: string, pattern: string): RouteRules | undefined {
      const methods = rules.get(pattern)
      return methods?.get(method) ?? (method === 'HEAD' ? methods?.get('GET') : undefined)
    },
    /** Whether a request needs no key. True for all paths outside of /v1 and the dialects. */
    isPublic: (method: string, path: string) =>
      !isApiPath(path) || publicApi.has(`${method === 'HEAD' ? 'GET' : method} ${removeTrailingSlash(path)}`),
    /** Whether the body has other limits, because the handler reads it as a stream or it is signed. */
    takesStream: (method: string, path: string) =>
      streams.some((stream) => stream.method === method && stream.matches.test(path)),
    /** The methods of the routes that match `path`, in alphabetical order; includes HEAD wherever there is GET. */
    methodsAt(path: string): readonly string[] {
      const methods = new Set(patterns.filter(({ matches }) => matches.test(path)).flatMap((p) => p.methods))
      if (methods.has('GET')) methods.add('HEAD')
      return [...methods].sort()
    },
  }
}

export const removeTrailingSlash = (path: string): string =>
  path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path

function readRequiredScopes(
  method: string,
  path: string,
  { detail }: RouteHooks,
  isApi: boolean,
): readonly string[] | undefined {
  const scope = detail?.['x-required-scope']
  const isDeclaredPublic = detail?.security?.length === 0
  const name = `${method} ${path}`
  if (!isApi) {
    if (scope !== undefined) throw new TypeError(`route ${name} needs a key, so it must be under /v1 or of a dialect`)
    return undefined
  }
  if (scope !== undefined) return parseScopes(scope)
  if (!isDeclaredPublic) throw new TypeError(`route ${name} must have requires(...) or publicRoute in its detail`)
  if (/[:*]/.test(path)) throw new TypeError(`route ${name} is public, so its path must have no parameters`)
  return undefined
}

const isSchema = (value: unknown): value is TSchema => typeof value === 'object' && value !== null && Kind in value

/** Whether a part of a schema takes an object with any names. */
const hasFreeForm = (schema: TSchema): boolean =>
  schema[Kind] === 'Unknown' ||
  schema[Kind] === 'Record' ||
  [schema['items'], ...(schema['anyOf'] ?? []), ...Object.values(schema['properties'] ?? {})].some(
    (part) => isSchema(part) && hasFreeForm(part),
  )

function createPartCheck(schema: unknown, rootName: string, method: string, path: string): Check | undefined {
  if (schema === undefined || schema === null) return undefined
  if (!isSchema(schema)) throw new TypeError(`route ${method} ${path}: the ${rootName} schema must be a TypeBox schema`)
  return createCheck(schema, rootName)
}

/**
 * Routes of /v1 refuse unknown parameters: a client must not believe that an ignored filter has an effect. Pages accept
 * any parameters, because mail programs and analytics add their own to links; a dialect does as its provider.
 */
function createQueryCheck(method: string, path: string, schema: unknown): RouteRules['checkQuery'] {
  // If this were not set, Elysia would set it to false on the schema itself when the schema is first used.
  if (isSchema(schema)) schema['additionalProperties'] ??= true
  const checkValues = createPartCheck(schema, 'query', method, path) ?? (() => [])
  if (!isOwnApiPath(path)) return checkValues
  const known = queryNamesOf(schema)
  return (query, url) => {
    const details = checkQueryNames(url, known)
    return details.length > 0 ? details : checkValues(query)
  }
}

/** A route with a single schema declares the schema of status 200. */
function createFieldFilters(response: unknown, isStrict: boolean): ReadonlyMap<number, FieldFilter> {
  if (isSchema(response)) return new Map([[200, createFieldFilter(response, isStrict)]])
  return new Map(
    Object.entries(response ?? {}).flatMap(([status, schema]) =>
      isSchema(schema) ? [[Number(status), createFieldFilter(schema, isStrict)] as const] : [],
    ),
  )
}

/** Creates a value when it is first needed. */
export function once<T>(create: () => T): () => T {
  let created: T | undefined
  return () => {
    created ??= create()
    return created
  }
}

/**
 * `:id` in `/v1/domains/:id` matches one segment and `*` the rest; a trailing slash is optional, as in Elysia's router.
 */
function toPathPattern(pattern: string): RegExp {
  const segments = removeTrailingSlash(pattern)
    .split('/')
    .map((segment) => {
      if (segment.startsWith(':')) return '[^/]+'
      if (segment === '*') return '.*'
      return segment.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
    })
  return new RegExp(`^${segments.join('/')}/?$`)
}
