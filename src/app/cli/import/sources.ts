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
const MAX_RESPONSE_BYTES = 256 * MiB
const TIMEOUT_MS = seconds(60)
const MAX_ATTEMPTS = 5
const MAX_WAIT_SECONDS = 60
const DEFAULT_WAIT_SECONDS = 2

type ApiOptions = Readonly<{ key: string } & Partial<Record<'url' | 'domain' | 'region', string>>>

/** Reads lists and templates by the API of a provider. What it does not answer as documented is a CommandError. */
export function openApi(provider: Provider, options: ApiOptions) {
  const { title, header, scheme, needs = 'key' } = provider
  const { key, region } = options
  const fail = (text: string): never => {
    throw new CommandError(`${title} ${text}`)
  }
  if (!options[needs]) throw new UsageError(`Say of which ${needs} at ${title}: --${needs}.`)
  if (!/^[\x21-\x7e]{1,4000}$/.test(key)) throw new UsageError('The key must be one line of ASCII characters.')
  const fill = (text: string): string =>
    text.replace(/\{(domain|region)\}/g, (_, name: 'domain' | 'region') => encodeURIComponent(options[name] ?? ''))
  const base = fill(options.url ?? provider.url).replace(/\/$/, '')
  if (!URL.canParse(base)) throw new UsageError(`${base} is not a URL.`)

  function sign(url: string): Record<string, string> {
    if (header !== '') return { [header]: scheme + (scheme === 'Basic ' ? btoa(`api:${key}`) : key) }
    const [id = '', secret = ''] = key.split(':')
    return signAws({ method: 'GET', url, body: '' }, id, secret, `${region}/ses`, systemClock.now())
  }

  /** The body of the response to a GET; waits when the API asks for it. */
  async function get(path: string): Promise<unknown> {
    for (let left = MAX_ATTEMPTS; ; left--) {
      const headers = { accept: 'application/json', ...sign(base + path) }
      const signal = AbortSignal.timeout(TIMEOUT_MS)
      const response = await fetch(base + path, { headers, redirect: 'error', signal }).catch((error: Error) =>
        fail(`cannot be reached at ${base}: ${error.message}`),
      )
      const { status } = response
      if (status === 401 || status === 403) fail(`does not accept the key (status ${status}) for ${path}.`)
      if (status === 429) {
        const wait = Number(response.headers.get('retry-after') ?? DEFAULT_WAIT_SECONDS)
        if (left <= 1 || !(wait <= MAX_WAIT_SECONDS))
          fail(`limits requests (status 429, retry-after ${wait} s). Run the import again later: what is here stays.`)
        await systemClock.sleep(seconds(wait))
        continue
      }
      const text = await readBounded(response, MAX_RESPONSE_BYTES).catch(() => undefined)
      if (text === undefined)
        return fail(
          `cuts off what it responds to ${path}, or that is larger than 256 MiB: import a file of it (--file).`,
        )
      const body = attempt((): unknown => JSON.parse(text))
      if (status === 200 && body !== undefined) return body
      const message = readField(body, 'message|Message|error|errors') || text.slice(0, 100) || 'nothing'
      fail(`responds to ${path} with status ${status} and what is not as documented: ${message}`)
    }
  }

  /** The rows of all pages. @param rows field with those of a page; undefined: the page is a list */
  async function* pages(path: string, rows: string | undefined): AsyncGenerator<readonly unknown[]> {
    const seen = new Set<string>()
    for (let next: string | undefined = fill(path); next !== undefined; ) {
      if (seen.has(next) || seen.size >= MAX_PAGES)
        fail(`does not end its list at ${next}: import a file of it (--file).`)
      seen.add(next)
      const body = await get(next)
      const found = rows === undefined ? body : step(body, rows)
      // Brevo omits an empty list.
      const list = found === undefined && step(body, 'count') === 0 ? [] : found
      if (!Array.isArray(list)) return fail(`responds to ${next} without a list${rows ? ` "${rows}"` : ''}.`)
      yield list
      next = findNext(next, body, list)
    }
  }

  return {
    async *list({ path, rows, streams }: ListSource): AsyncGenerator<readonly unknown[]> {
      if (streams === undefined) return yield* pages(path, rows)
      for await (const page of pages(streams, 'MessageStreams'))
        for (const stream of page)
          if (readField(stream, 'MessageStreamType') !== 'Inbound')
            yield* pages(path.replace('{stream}', encodeURIComponent(readField(stream, 'ID'))), rows)
    },

    async *templates({ path, rows, one, id }: TemplateSource): AsyncGenerator<readonly unknown[]> {
      for await (const page of pages(path, rows))
        for (const row of page)
          yield [one ? await get(fill(one).replace('{id}', encodeURIComponent(readField(row, id)))) : row]
    },
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

const LINES_PER_PAGE = 1000

/** The rows of an exported file, CSV or JSON, in parts: a list, an object with one as `name`, or a single row. */
function* readExport(path: string, file: Buffer, name = ''): Generator<readonly unknown[]> {
  if (/^\ufeff?\s*[[{]/.test(file.subarray(0, 100).toString())) {
    const body = attempt((): unknown => JSON.parse(file.toString().replace(/^\ufeff/, '')))
    if (body === undefined) throw new CommandError(`${path} is no JSON: it may be cut off.`)
    return yield [step(body, name) ?? body].flat()
  }
  const { at, delimiter } = detectStart(file)
  let header: readonly string[] | undefined
  for (const records of scanInSteps(file.subarray(at), { delimiter, line: 1, isEnd: true }, LINES_PER_PAGE)) {
    const lines = records.map((record) => {
      if (record.kind === 'record') return record.cells
      throw new CommandError(`${path}, line ${record.line}: ${record.error}`)
    })
    header ??= lines.shift()
    const names = header ?? []
    yield lines.map((cells) => Object.fromEntries(cells.map((cell, index) => [names[index] ?? index, cell])))
  }
}

const isOfSource = (row: unknown, { address, at, by = at }: ListSource): boolean =>
  [address, at, by].every((paths) => readField(row, paths) !== '')

/** The kind and rows of an exported file: `bounces=FILE`, or a file whose name has the kind. */
export function readFile(provider: Provider, text: string) {
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
  const file = readInput(path, 'file')
  const pages = () => readExport(path, file, (source ?? provider.templates).rows)
  const [first = []] = pages()
  // Some rows may lack a time.
  const looksLike = (one: ListSource): boolean => first.some((row) => isOfSource(row, one))
  if (source && first.length > 0 && !looksLike(source)) {
    const others = Object.values(PROVIDERS).filter(({ lists }) => Object.values(lists).some(looksLike))
    const hint = others[0] ? ` It looks like a file of ${others.map(({ title }) => title).join(' or ')}.` : ''
    const wanted = [source.address, source.at, source.by].filter(Boolean).join(', ')
    throw new CommandError(`${path} has no columns ${wanted}, as ${kind} of ${provider.title} have.${hint}`)
  }
  return { kind, pages }
}
