/**
 * @module `tassis api`: sends a request to any route of the API as the operator, and prints the response; `tassis logs`:
 * lists the requests of an account.
 */
import { TassisError } from '#client/client.ts'
import { withApi } from './api.ts'
import type { Command, ListContext } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { type AccountOption, collectOption, readInput } from './options.ts'
import { type JsonOption, printJson, toPrintableLines } from './output.ts'

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

interface RequestOptions extends JsonOption, AccountOption {
  readonly header?: readonly string[] | undefined
}

export function addRequestCommand(program: Command): void {
  program
    .add('api', 'send a request to any route of the API, with all rights')
    .account()
    .argument('<method>', METHODS.join(', '))
    .argument('<path>', 'path with its query, such as /v1/emails?status=bounced; /docs lists all')
    .argument('[body]', 'JSON; - reads it from standard input')
    .option(
      '--header <name:value>',
      'a header, such as content-type:text/csv for another body, or accept:text/event-stream for events as they come; repeat for several',
      collectOption,
    )
    .action(async (method: string, path: string, body: string | undefined, options: RequestOptions) => {
      const request = toRequest(method.toUpperCase(), path, body, options.header)
      // Nothing new happens in the data of a stopped service.
      const needsService = request.headers['accept']?.includes('text/event-stream') ?? false
      await withApi(options, async (api) => printResponse(await api.fetch(path, request)), { needsService })
    })
}

function toRequest(method: string, path: string, body: string | undefined, headers: readonly string[] = []) {
  if (!METHODS.includes(method)) throw new UsageError(`The method is one of ${METHODS.join(', ')}.`)
  if (!path.startsWith('/v1/')) throw new UsageError('The path begins with /v1/, such as /v1/emails.')
  if (method === 'GET' && body !== undefined)
    throw new UsageError('GET has no body; filters are a query, such as /v1/emails?status=bounced.')
  return {
    method,
    ...(body !== undefined && { body: body === '-' ? readInput(body, 'body') : body }),
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...Object.fromEntries(headers.map(parseHeader)),
    } as Readonly<Record<string, string>>,
  }
}

function parseHeader(text: string): [name: string, value: string] {
  const [, name = '', value = ''] = /^([\w-]+):(.*)$/.exec(text) ?? []
  if (name === '') throw new UsageError(`A header is NAME:VALUE, such as accept:text/csv, not "${text}".`)
  return [name.toLowerCase(), value.trim()]
}

/** JSON is formatted; anything else is written as it comes, to a terminal only as text without control characters. */
async function printResponse(response: Response): Promise<void> {
  const type = response.headers.get('content-type') ?? ''
  const isJson = /^application\/(?:[\w.+-]+\+)?json\b/.test(type)
  if (!response.ok) throw new TassisError(response.status, isJson ? ((await response.json()) as object) : {})
  if (!response.body) return
  if (isJson) return printJson(await response.json())
  if (!process.stdout.isTTY) return writeAll(response.body)
  if (!type.startsWith('text/'))
    throw new CommandError(`The response is ${type || 'not text'}; send standard output to a file or a program.`)
  const text = response.body.pipeThrough(new TextDecoderStream())
  await writeAll(text, toPrintableLines)
}

/** Writes each piece as soon as it is there, until the reader of standard output has enough. */
async function writeAll<T extends string | Uint8Array>(
  pieces: AsyncIterable<T>,
  convert: (piece: T) => string | Uint8Array = (piece) => piece,
): Promise<void> {
  for await (const piece of pieces) {
    const isWritten = await new Promise((resolve) => process.stdout.write(convert(piece), (error) => resolve(!error)))
    if (!isWritten) return
  }
}

interface LogOptions {
  readonly status?: string
  readonly requestId?: string
  readonly q?: string
}

export function addLogsCommand(program: Command): void {
  program
    .add('logs', 'list the newest requests of an account by the API, SMTP and MCP')
    .account()
    .limit('requests', 30)
    .option('--status <status>', 'only with this status, such as 422, or class, such as 4xx')
    .option('--request-id <id>', 'only the request with this ID, which error responses have')
    .option('--q <text>', 'only with this text in path or error')
    .list(
      ({ api, options: { status, requestId, q }, query }: ListContext<LogOptions>) =>
        api.logs.list({ status, request_id: requestId, q, per_page: query.per_page }),
      'created_at kind method path status error_message actor_name ip_address request_id',
      undefined,
      'No requests found.',
    )
}
