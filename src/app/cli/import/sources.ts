/**
 * @module What other providers have, read by their APIs or from the files that they export: lists of addresses, and
 * templates. `providers.json` has their paths and fields. Writes nothing; limits pages, bytes and time.
 */
import { basename } from 'node:path'
import { attempt } from '#platform/attempt.ts'
import { signAws } from '#platform/crypto/sign-aws.ts'
import { detectStart, scanInSteps } from '#platform/csv/records.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { readBounded } from '#platform/net/bounded-fetch.ts'
import { systemClock } from '#platform/time/clock.ts'
import { MiB, seconds } from '#platform/units.ts'
import { CommandError, UsageError } from '../errors.ts'
import { readInput } from '../options.ts'
import data from './providers.json' with { type: 'json' }

type Texts<Name extends string, Maybe extends string> = Readonly<Record<Name, string> & Partial<Record<Maybe, string>>>

/**
 * A list of addresses. Fields are paths such as `reason.code`; `|` separates alternatives. `reason`: ours for all of
 * them, else `by` and `origin` are fields that say it. `streams`: path of those for `{stream}`. `instead`: why it is not
 * imported.
 */
export type ListSource = Texts<'path' | 'address' | 'at', 'rows' | 'reason' | 'by' | 'origin' | 'streams' | 'instead'>

/**
 * `one`: path of a whole template, if lists have none; `body`: field of its response that has it; `versions`: field with
 * versions, of which the active one becomes `version`. `isJinja`: its syntax is like ours, not Handlebars.
 * `hasLayouts`: it is Postmark's.
 */
export type TemplateSource = Texts<
  'path' | 'rows' | 'id' | 'name' | 'subject' | 'html',
  'one' | 'body' | 'versions' | 'alias' | 'prefix' | 'text'
> & { readonly isJinja?: boolean; readonly hasLayouts?: boolean }

export interface Provider extends Texts<'title' | 'url' | 'header' | 'scheme', never> {
  readonly lists: Readonly<Record<string, ListSource>>
  readonly templates: TemplateSource
  readonly needs?: 'domain' | 'region'
}

export const PROVIDERS = data as Readonly<Record<keyof typeof data, Provider>>

const toKey = (name: string): string => name.toLowerCase().replaceAll(/[^a-z\d]/g, '')
const step = (value: unknown, name: string): unknown =>
  isJsonObject(value)
    ? (value[name] ?? Object.entries(value).find(([key]) => toKey(key) === toKey(name))?.[1])
    : undefined

/** The first text or number at one of the paths, as a text; files may write names with other case and signs. */
export function readField(row: unknown, paths = ''): string {
  const values = paths.split('|').map((path) => path.split('.').reduce(step, row))
  return String(values.find((value) => value !== '' && (typeof value === 'string' || typeof value === 'number')) ?? '')
}

const MAX_PAGES = 10_000
const MAX_RESPONSE_BYTES = 64 * MiB
const TIMEOUT_MS = seconds(60)
const MAX_ATTEMPTS = 5
const MAX_WAIT_SECONDS = 60
const DEFAULT_WAIT_SECONDS = 2

type ApiOptions = Readonly<{ key: string } & Partial<Record<'url' | 'domain' | 'region', string>>>

/** The API of a provider. */
export class ProviderApi {
  readonly #provider: Provider
  readonly #options: ApiOptions
  readonly #base: string

  constructor(provider: Provider, options: ApiOptions) {
    const { needs = 'key' } = provider
    if (!options[needs]) throw new UsageError(`Say of which ${needs} at ${provider.title}: --${needs}.`)
    if (!/^[\x21-\x7e]{1,4000}$/.test(options.key))
      throw new UsageError('The key must be one line of ASCII characters.')
    this.#provider = provider
    this.#options = options
    this.#base = this.#fill(options.url ?? provider.url).replace(/\/$/, '')
    if (!URL.canParse(this.#base)) throw new UsageError(`${this.#base} is not a URL.`)
  }

  #fill = (text: string): string =>
    text.replace(/\{(domain|region)\}/g, (_, name: 'domain' | 'region') =>
      encodeURIComponent(this.#options[name] ?? ''),
    )

  #sign(url: string): Record<string, string> {
    const { header, scheme } = this.#provider
    const { key, region } = this.#options
    if (header !== '') return { [header]: scheme + (scheme === 'Basic ' ? btoa(`api:${key}`) : key) }
    const [id = '', secret = ''] = key.split(':')
    return signAws({ method: 'GET', url, body: '' }, id, secret, `${region}/ses`, systemClock.now())
  }

  /** The response to a GET; waits when the API asks for it. Throws a CommandError for a key that is not accepted. */
  async request(path: string): Promise<Response> {
    const { title } = this.#provider
    const url = this.#base + path
    for (let left = MAX_ATTEMPTS; ; left--) {
      const headers = { accept: 'application/json', ...this.#sign(url) }
      const response = await fetch(url, { headers, redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(
        (error: Error) => {
          throw new CommandError(`${title} cannot be reached at ${this.#base}: ${error.message}`)
        },
      )
      if (response.status === 401 || response.status === 403)
        throw new CommandError(`${title} does not accept the key (status ${response.status}) for ${path}.`)
      if (response.status !== 429) return response
      const wait = Number(response.headers.get('retry-after') ?? DEFAULT_WAIT_SECONDS)
      if (left <= 1 || !(wait <= MAX_WAIT_SECONDS))
        throw new CommandError(
          `${title} limits requests (status 429, retry-after ${wait} s). Run the import again later: what is here stays.`,
        )
      await systemClock.sleep(seconds(wait))
    }
  }

  async get(path: string): Promise<unknown> {
    const response = await this.request(path)
    const text = await readBounded(response, MAX_RESPONSE_BYTES).catch(() => undefined)
    const body = attempt((): unknown => JSON.parse(text ?? ''))
    if (response.status === 200 && body !== undefined) return body
    const message = readField(body, 'message|Message|error|errors') || (text ?? '').slice(0, 100)
    throw new CommandError(
      `${this.#provider.title} responds to ${path} with status ${response.status} and what is not as documented: ${message || 'nothing'}`,
    )
  }

  /** The rows of all pages. @param rows field with those of a page; undefined: the page is a list */
  async *pages(path: string, rows: string | undefined): AsyncGenerator<readonly unknown[]> {
    let next: string | undefined = this.#fill(path)
    for (let page = 0; next !== undefined && page < MAX_PAGES; page++) {
      const body = await this.get(next)
      const found = rows === undefined ? body : step(body, rows)
      // Brevo omits an empty list.
      const isEmpty = found === undefined && step(body, 'count') === 0
      if (!Array.isArray(found) && !isEmpty)
        throw new CommandError(`${this.#provider.title} responds to ${next} without a list${rows ? ` "${rows}"` : ''}.`)
      const list = isEmpty ? [] : (found as unknown[])
      yield list
      next = findNext(next, body, list)
    }
  }

  async *list({ path, rows, streams }: ListSource): AsyncGenerator<readonly unknown[]> {
    if (streams === undefined) return yield* this.pages(path, rows)
    for await (const page of this.pages(streams, 'MessageStreams'))
      for (const stream of page)
        if (readField(stream, 'MessageStreamType') !== 'Inbound')
          yield* this.pages(path.replace('{stream}', encodeURIComponent(readField(stream, 'ID'))), rows)
  }

  async *templates({ path, rows, one, id }: TemplateSource): AsyncGenerator<unknown> {
    for await (const page of this.pages(path, rows))
      for (const row of page)
        yield one ? await this.get(this.#fill(one).replace('{id}', encodeURIComponent(readField(row, id)))) : row
  }
}

/** Path or URL of the next page, in the way of whichever provider; undefined: there is none. */
function findNext(path: string, body: unknown, rows: readonly unknown[]): string | undefined {
  if (rows.length === 0) return undefined
  const link = readField(body, 'paging.next|_metadata.next')
  // Of a link only path and query, so that the key goes to no other host.
  const url = new URL(link || path, 'http://provider.invalid')
  if (link !== '') return url.pathname + url.search
  const limit = Number(url.searchParams.get('limit') ?? url.searchParams.get('count'))
  const token = readField(body, 'NextToken')
  if (token !== '') url.searchParams.set('NextToken', token)
  else if (step(body, 'has_more') === true) url.searchParams.set('after', readField(rows.at(-1), 'id'))
  else if (url.searchParams.has('offset') && rows.length >= limit)
    url.searchParams.set('offset', String(Number(url.searchParams.get('offset')) + limit))
  else return undefined
  // Signatures need the order of names.
  url.searchParams.sort()
  return url.pathname + url.search
}

/** The rows of an exported file, CSV or JSON: a list, an object with one as `name`, or a single row. */
function readExport(path: string, name = ''): readonly unknown[] {
  const file = readInput(path, 'file')
  const text = file.subarray(0, 100).toString().trimStart()
  if (/^\ufeff?\s*[[{]/.test(text)) {
    const body = attempt((): unknown => JSON.parse(file.toString().replace(/^\ufeff/, '')))
    if (body === undefined) throw new CommandError(`${path} is no JSON: it may be cut off.`)
    return [step(body, name) ?? body].flat()
  }
  const { at, delimiter } = detectStart(file)
  const records = [...scanInSteps(file.subarray(at), { delimiter, line: 1, isEnd: true }, 1000)].flat()
  const [header, ...rows] = records.map((record) => {
    if (record.kind === 'record') return record.cells
    throw new CommandError(`${path}, line ${record.line}: ${record.error}`)
  })
  return rows.map((cells) => Object.fromEntries(cells.map((cell, index) => [header?.[index] ?? index, cell])))
}

const isOfSource = (row: unknown, { address, at, by = at }: ListSource): boolean =>
  [address, at, by].every((paths) => readField(row, paths) !== '')

/** The kind and rows of an exported file: `bounces=FILE`, or a file whose name has the kind. */
export function readFile(
  provider: Provider,
  text: string,
): { readonly kind: string; readonly rows: readonly unknown[] } {
  const kinds = [...Object.keys(provider.lists), 'templates']
  const [, prefix, path = text] = /^([a-z_]{1,30})=(.+)$/.exec(text) ?? []
  const named = kinds.toSorted((a, b) => b.length - a.length)
  const kind =
    prefix ??
    named.find((name) => toKey(basename(path)).includes(toKey(name))) ??
    (kinds.length > 2 ? '' : kinds[0]) ??
    ''
  if (!kinds.includes(kind)) throw new UsageError(`Say what ${path} has: --file ${kinds.join(`=${path}, `)}=${path}.`)
  const source = provider.lists[kind]
  const rows = readExport(path, (source ?? provider.templates).rows)
  if (source && rows.length > 0 && !isOfSource(rows[0], source)) {
    const others = Object.values(PROVIDERS).filter((other) =>
      Object.values(other.lists).some((one) => isOfSource(rows[0], one)),
    )
    const hint = others[0] ? ` It looks like a file of ${others.map(({ title }) => title).join(' or ')}.` : ''
    const wanted = [source.address, source.at, source.by].filter(Boolean).join(', ')
    throw new CommandError(`${path} has no columns ${wanted}, as ${kind} of ${provider.title} have.${hint}`)
  }
  return { kind, rows }
}
