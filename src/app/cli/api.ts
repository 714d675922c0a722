/**
 * @module The API as commands call it: over the admin socket of the running service, else within this process, with the
 * same handlers. Whatever a route refuses, a command prints as the route says it.
 */
import { API, type Api } from '#client/api.ts'
import { createClient, type Pages, TassisError } from '#client/client.ts'
import { OPERATOR_API, type OperatorApi } from '#client/operator-api.ts'
import { type AdminReply, adminSocketPath, fetchAdminSocket } from '#platform/http/admin-socket.ts'
import type { Config } from '#platform/settings/config.ts'
import { parseHostPort, toReachableUrl } from '#platform/settings/setting-kinds.ts'
import { seconds } from '#platform/units.ts'
import { ACCOUNT_HEADER } from '../admin-fetch.ts'
import { loadConfig } from '../settings.ts'
import { VERSION } from '../version.ts'
import { type CallOptions, type Fetch, withFetch } from './call.ts'
import { type AccountOption, CommandError } from './options.ts'

export type CommandApi = Api &
  OperatorApi & {
    /** The same for another account, by its ID. */
    readonly as: (account: string) => CommandApi
    /** Whether a service is running, which delivers; otherwise this process serves the requests. */
    readonly isServed: boolean
    /** Sends a request to any path below /v1. */
    readonly fetch: Fetch
  }

/** The host is not looked up. */
const URL_OF_SERVICE = 'http://tassis'

/** @param account ID or name of the account to act for; default: the only one */
export function createApi(fetch: Fetch, isServed: boolean, account?: string): CommandApi {
  const headers = account === undefined ? {} : { [ACCOUNT_HEADER]: encodeURIComponent(account) }
  // The service is on this machine: waiting for it, and repeating what it refused, is up to the person.
  const options = { url: URL_OF_SERVICE, fetch, headers, retries: 0, timeoutMs: 0 }
  return {
    ...createClient<Api>(API, options),
    ...createClient<OperatorApi>(OPERATOR_API, options),
    as: (other) => createApi(fetch, isServed, other),
    isServed,
    fetch: (path, init) => fetch(`${URL_OF_SERVICE}${path}`, { ...init, headers: { ...headers, ...init.headers } }),
  }
}

/** Calls `use` with the API, for the account of `--account`. @throws CommandError with what the API refused */
export async function withApi<T>(
  { account }: AccountOption,
  use: (api: CommandApi) => Promise<T>,
  options: CallOptions = {},
): Promise<T> {
  try {
    return await withFetch(loadConfig().config, (fetch, isServed) => use(createApi(fetch, isServed, account)), options)
  } catch (error) {
    if (!(error instanceof TassisError)) throw error
    throw new CommandError(toSentence(error), error.code)
  }
}

/** The message of an error, which names the first field that is wrong, with the others. */
function toSentence({ message, details }: TassisError): string {
  const sentence = trimFullStop(message.replace(/ \(and [^)]{1,40}, see details\)/, ''))
  const others = details.flatMap(({ field, message: text }, i) => {
    const problem = trimFullStop(text)
    const shown = field === undefined ? problem : `${field} ${problem}`
    return sentence.includes(i === 0 ? problem : shown) ? [] : [shown]
  })
  return `${[sentence, ...others.slice(0, MAX_SHOWN_DETAILS)].join('; ')}.`
}

const trimFullStop = (text: string): string => text.replace(/\.$/, '')

const MAX_SHOWN_DETAILS = 5

/** Finds the one thing that a person names, in the account of `--account` or in all; `api` then acts for its account. */
export async function findOne(
  api: CommandApi,
  kind: Parameters<CommandApi['operator']['find']>[0]['kind'],
  text: string,
  { account }: AccountOption = {},
) {
  const { data } = await api.operator.find({ kind, text, account })
  return { ...data, api: api.as(data.account_id) }
}

/** Id of the account of `--account`, as a filter of a list of all accounts; undefined: all. */
export const findAccountFilter = async (api: CommandApi, { account }: AccountOption): Promise<string | undefined> =>
  account === undefined ? undefined : (await api.account.get()).data.id

const MAX_PAGE_SIZE = 100

/** Of the pages of a list with this limit: one row more shows whether there are more. */
export const pageSize = (limit: number): number => Math.min(limit + 1, MAX_PAGE_SIZE)

/** A list as the API answers it, with at most `limit` rows of as many pages as that takes. */
export async function readRows<Body extends { readonly data: readonly unknown[] }>(
  pages: Pages<Body>,
  limit: number,
): Promise<Body & { readonly has_more: boolean }> {
  const rows: unknown[] = []
  let first: Body | undefined
  for await (const page of pages.pages()) {
    first ??= page
    rows.push(...page.data)
    if (rows.length > limit) break
  }
  if (!first) throw new Error('the list had no page')
  return { ...first, data: rows.slice(0, limit), has_more: rows.length > limit }
}

/** Repeats a request that changes a limited number at once, until all is done. */
export async function* sendAll<Done extends { readonly next_cursor: string | null }>(
  send: (cursor: string | undefined) => Promise<{ readonly data: Done }>,
): AsyncGenerator<Done> {
  for (let cursor: string | undefined | null; cursor !== null; ) {
    const { data } = await send(cursor)
    yield data
    cursor = data.next_cursor
  }
}

const TIMEOUT_MS = seconds(3)

/** Calls the API of the running service; never opens the data. */
export async function callService<T>(
  { dataDir }: Pick<Config, 'dataDir'>,
  use: (api: CommandApi) => PromiseLike<T>,
  timeoutMs = TIMEOUT_MS,
): Promise<AdminReply<T>> {
  if (adminSocketPath(dataDir) === undefined) return { kind: 'nobody' }
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const api = createApi((url, init) => fetchAdminSocket(dataDir, VERSION, url, { ...init, signal }), true)
    return { kind: 'ok', value: await use(api) }
  } catch (error) {
    if (signal.aborted) return { kind: 'silent' }
    if (!(error instanceof TassisError)) throw error
    const { status, message, code } = error
    return status === 0 ? { kind: 'nobody' } : { kind: 'refused', message, code }
  }
}

/** The URL of the service on this machine, without a path: as the running one says, else as the settings do. */
export async function findServiceUrl(config: Pick<Config, 'dataDir' | 'httpAddr'>): Promise<string> {
  const reply = await callService(config, (api) => api.operator.getHealth())
  const { host, port } = parseHostPort(config.httpAddr) ?? { host: '127.0.0.1', port: 8080 }
  return (reply.kind === 'ok' ? reply.value.data.url : null) ?? toReachableUrl(host, port)
}
