/**
 * @module Reads lists of addresses and templates by the APIs of other providers. `providers.json` has their paths and
 * fields. Writes nothing.
 */
import { createClient, type Query, TassisError } from '#client/client.ts'
import { signAws } from '#platform/crypto/sign-aws.ts'
import { isJsonObject } from '#platform/json-object.ts'
import { systemClock } from '#platform/time/clock.ts'
import { CommandError, readInput, UsageError } from '../options.ts'
import data from './providers.json' with { type: 'json' }

type Texts<Name extends string> = Readonly<Partial<Record<Name, string>>>

/**
 * A list of things. `rows`: field of a page with its rows, else the page has them. `each`: path of a further request for
 * each row, whose `id` is a field of it; `eachRows` are the rows of that. Fields are paths such as `reason.code`; `|`
 * separates alternatives.
 */
type Source = { readonly path: string } & Texts<'rows' | 'each' | 'eachRows' | 'id'>

/**
 * Addresses. `reason`: ours for all of them, else `by` and `origin` are fields that say it. `instead`: why they are not
 * imported.
 */
export type ListSource = Source & Texts<'address' | 'at' | 'reason' | 'by' | 'origin' | 'instead'>

/** `isJinja`: its syntax is like ours, not Handlebars. `hasNumbers`: sends may name a template by its number. */
export type TemplateSource = Source &
  Texts<'alias' | 'prefix' | 'name' | 'subject' | 'html' | 'text'> & {
    readonly isJinja?: boolean
    readonly hasNumbers?: boolean
  }

export interface Provider extends Readonly<Record<'title' | 'url' | 'header' | 'scheme', string>> {
  readonly lists: Readonly<Record<string, ListSource>>
  readonly templates: TemplateSource
  readonly needs?: 'domain' | 'region'
}

export const PROVIDERS = data as Readonly<Record<keyof typeof data, Provider>>

const toKey = (name: string): string => name.toLowerCase().replaceAll(/[^a-z\d]/g, '')

/** One name of a path; of a list the row in which that is 1, as SendGrid marks the active version of a template. */
function step(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return value.find((row) => step(row, name) === 1)
  if (!isJsonObject(value)) return undefined
  return value[name] ?? Object.entries(value).find(([key]) => toKey(key) === toKey(name))?.[1]
}

/** The first value at one of the paths, as a text; files may write names with other case and signs. */
export function readField(row: unknown, paths = ''): string {
  const values = paths.split('|').map((path) => path.split('.').reduce(step, row))
  return String(values.find((value) => value !== '' && ['string', 'number', 'boolean'].includes(typeof value)) ?? '')
}

/** The rows of a page or file: a list, an object with one as `name`, or a single row. Brevo omits an empty list. */
export const listRows = (body: unknown, name = ''): unknown[] =>
  step(body, 'count') === 0 ? [] : [step(body, name) ?? body].flat()

export type ApiOptions = Texts<'keyFile' | 'url' | 'domain' | 'region'>

const MAX_PAGES = 10_000

/**
 * Returns a function that reads what a source has, in parts. Throws CommandError for what an API does not answer as
 * documented.
 */
export function openApi({ title, header, scheme, needs, url: defaultUrl }: Provider, options: ApiOptions) {
  if (needs && !options[needs]) throw new UsageError(`Say of which ${needs} at ${title}: --${needs}.`)
  const key = readInput(options.keyFile, `API key of ${title}`).toString().trim()
  if (!/^[\x21-\x7e]{1,4000}$/.test(key)) throw new UsageError('The key must be one line of ASCII characters.')
  const fill = (text: string): string =>
    text.replace(/\{(domain|region)\}/g, (_, name: 'domain' | 'region') => encodeURIComponent(options[name] ?? ''))
  const url = fill(options.url ?? defaultUrl)

  const authenticate = (target: string): Record<string, string> => {
    if (header !== '') return { [header]: scheme + (scheme === 'Basic ' ? btoa(`api:${key}`) : key) }
    const [id = '', secret = ''] = key.split(':')
    return signAws({ method: 'GET', url: target, body: '' }, id, secret, `${options.region}/ses`, systemClock.now())
  }

  /** Our own client knows how to wait when an API asks for it, and follows no redirect. */
  async function get(path: string, query: Query): Promise<unknown> {
    const { api } = createClient<{ api: { get(query: Query): Promise<unknown> } }>(
      { api: `${path},get query` },
      {
        url,
        fetch: (target, init) => fetch(target, { ...init, headers: { ...init.headers, ...authenticate(target) } }),
      },
    )
    return api.get(query).catch((error: unknown) => {
      if (!(error instanceof TassisError)) throw error
      const { status, message, retryAfter = 'some' } = error
      const problem =
        status === 401 || status === 403
          ? 'it does not accept the key.'
          : status === 429
            ? `it limits requests, for ${retryAfter} s. Run the import again later: what is here stays.`
            : message
      throw new CommandError(`${title}, ${path}${status === 0 ? '' : `, status ${status}`}: ${problem}`)
    })
  }

  async function* readPages(target: string, rows: string | undefined): AsyncGenerator<readonly unknown[]> {
    const { pathname: path, searchParams } = new URL(target, url)
    const seen = new Set<string>()
    for (let query: Query | undefined = Object.fromEntries(searchParams); query !== undefined; ) {
      const place = JSON.stringify(query)
      if (seen.has(place) || seen.size >= MAX_PAGES)
        throw new CommandError(`${title} does not end its list at ${path}: import a file (--file).`)
      seen.add(place)
      const page = await get(path, query)
      const list = listRows(page, rows)
      if (rows !== undefined && list[0] === page)
        throw new CommandError(`${title} responds to ${path} without a list "${rows}".`)
      yield list
      query = findNextPage(query, page, list)
    }
  }

  return async function* read({ path, rows, each, eachRows, id }: Source): AsyncGenerator<readonly unknown[]> {
    for await (const page of readPages(fill(path), rows))
      if (each === undefined) yield page
      // Of Postmark: such a stream has no list.
      else
        for (const row of page)
          if (readField(row, 'MessageStreamType') !== 'Inbound')
            yield* readPages(fill(each).replace('{id}', encodeURIComponent(readField(row, id))), eachRows)
  }
}

/** Parameters of the next page, in the way of whichever provider; undefined: there is none. */
function findNextPage(query: Query, page: unknown, rows: readonly unknown[]): Query | undefined {
  if (rows.length === 0) return undefined
  // Of a link only the parameters, so that the key goes to no other host.
  const link = URL.parse(readField(page, 'paging.next|_metadata.next'))
  if (link) return Object.fromEntries(link.searchParams)
  const token = readField(page, 'NextToken')
  if (token !== '') return { ...query, NextToken: token }
  if (step(page, 'has_more') === true) return { ...query, after: readField(rows.at(-1), 'id') }
  const { offset, count, limit = count } = query
  const isFull = offset !== undefined && rows.length >= Number(limit)
  return isFull ? { ...query, offset: Number(offset) + Number(limit) } : undefined
}
