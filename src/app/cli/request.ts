/**
 * @module `tassis api`: sends a request to any route of the API as the operator, and prints the response; `tassis logs`:
 * lists the requests of an account; `tassis send`: sends one message and prints its events until it is final. Without a
 * running service, this process delivers the message meanwhile.
 */

import type { EmailEvent, SendEmailRequest } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { isOpen, isStatus } from '#features/sending/queue/status.ts'
import { formatRelativeTime } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { type CommandApi, withApi } from './api.ts'
import type { Command, ListContext } from './command.ts'
import { type AccountOption, CommandError, collectOption, readInput, UsageError } from './options.ts'
import { formatJsonLine, type JsonOption, print, printJson, toPrintable, toPrintableLines } from './output.ts'

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

interface SendOptions
  extends JsonOption,
    AccountOption,
    Pick<SendEmailRequest, 'from' | 'to' | 'cc' | 'bcc' | 'stream'> {
  readonly subject: string
  readonly text?: string | undefined
  readonly html?: string | undefined
  readonly follow: boolean
}

export function addSendCommand(program: Command): void {
  program
    .command('send')
    .description('send one message and follow it until it is final; exit code 1 if a recipient was not reached')
    .option('--json', 'print one JSON object per line: the acceptance, each event, the result')
    .account()
    .requiredOption('--from <address>', 'sender; its domain must be registered')
    .requiredOption('--to <address>', 'recipient; repeat for several', collectOption)
    .option('--cc <address>', 'Cc recipient; repeat for several', collectOption)
    .option('--bcc <address>', 'Bcc recipient; repeat for several', collectOption)
    .option('--subject <text>', 'subject', 'A test message')
    .option('--text <text>', 'text body; default: one sentence, unless --html is given')
    .option('--html <html>', 'HTML body')
    .option('--stream <slug>', 'message stream')
    .option('--no-follow', 'exit once the message is accepted')
    .action(async (options: SendOptions) => {
      const interrupted = new AbortController()
      const interrupt = () => (interrupted.signal.aborted ? process.exit(1) : interrupted.abort())
      process.on('SIGINT', interrupt).on('SIGTERM', interrupt)
      const isSent = await withApi(options, (api) => sendAndFollow(api, options, interrupted.signal), {
        canDeliver: options.follow,
      })
      if (!isSent) process.exitCode = 1
    })
}

const POLL_INTERVAL_MS = 100

/** Returns true when the message was sent, or accepted with --no-follow. */
async function sendAndFollow(api: CommandApi, options: SendOptions, signal: AbortSignal): Promise<boolean> {
  const printLine = (value: unknown, text: string) => print(options.json ? formatJsonLine(value) : text)
  const { data: sent } = await api.emails.send(toEmail(options))
  printLine(sent, `Accepted as ${sent.id}.${sent.sandbox ? ' It will not leave this machine.' : ''}`)
  if (!options.follow) return true
  for (let printed = 0; ; ) {
    const { data: email } = await api.emails.get(sent.id)
    for (const event of email.events.slice(printed)) printLine(event, formatEvent(event))
    printed = email.events.length
    const isFinal = !(isStatus(email.status) && isOpen(email.status))
    if (isFinal || signal.aborted) {
      printLine(email, isFinal ? toPrintable(email.sentence) : `It is still ${email.status}; it stays in the queue.`)
      return isFinal && email.status === 'sent'
    }
    await systemClock.sleep(POLL_INTERVAL_MS)
  }
}

function toEmail({ from, to, cc, bcc, subject, text, html, stream }: SendOptions): SendEmailRequest {
  const fallback = html === undefined ? 'This message was sent with `tassis send`.\n' : undefined
  return { from, to, cc, bcc, subject, text_body: text ?? fallback, html_body: html, stream }
}

/**
 * Formats an event, such as `14:02:11.205Z  deferred   bob@example.net  451 later; next attempt in 5 min
 * (mx.example.net [192.0.2.1], TLSv1.3 …)`.
 */
function formatEvent({ type, created_at: at, recipient, raw_payload, sandbox }: EmailEvent): string {
  const data = (raw_payload ?? {}) as Readonly<Record<string, string | null | undefined>>
  const { next_retry_at: next, smtp_response: reply, reason, remote_mta: server, tls } = data
  const details = [reply ?? reason, next && `next attempt ${formatRelativeTime(Date.parse(next), Date.parse(at))}`]
  const session = [server, tls].filter(Boolean).join(', ')
  const columns = [
    at.slice(11),
    type.padEnd(9),
    sandbox && 'sandbox',
    recipient,
    details.filter(Boolean).join('; '),
    session && `(${session})`,
  ]
  return toPrintable(columns.filter(Boolean).join('  ').trimEnd())
}
