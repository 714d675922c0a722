/**
 * @module `tassis send`: sends one message and prints its events until it is final. Without a running service, this
 * process delivers the message while it follows the events.
 */
import type { Email, EmailEvent, SendEmailRequest } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { isOpen, isStatus } from '#features/sending/queue/status.ts'
import { formatRelativeTime } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { type CommandApi, withApi } from './api.ts'
import type { Command } from './command.ts'
import { type AccountOption, collectOption, type JsonOption } from './options.ts'
import { formatJsonLine, print, toPrintable } from './output.ts'

interface SendOptions extends JsonOption, AccountOption {
  readonly from: string
  readonly to: readonly string[]
  readonly cc?: readonly string[] | undefined
  readonly bcc?: readonly string[] | undefined
  readonly subject: string
  readonly text?: string | undefined
  readonly html?: string | undefined
  readonly stream?: string | undefined
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
  const { data: sent } = await api.emails.send(toRequest(options)).catch(async (error: unknown) => {
    throw await addAdvice(api, options.from, error)
  })
  printLine(sent, `Accepted as ${sent.id}.${sent.sandbox ? ' It will not leave this machine.' : ''}`)
  if (!options.follow) return true
  for (let printed = 0; ; ) {
    const { data: email } = await api.emails.get(sent.id)
    for (const event of email.events.slice(printed)) printLine(event, formatEvent(event))
    printed = email.events.length
    const isFinal = !(isStatus(email.status) && isOpen(email.status))
    if (isFinal || signal.aborted) {
      printLine(email, isFinal ? await describeEnd(api, email) : `It is still ${email.status}; it stays in the queue.`)
      return isFinal && email.status === 'sent'
    }
    await systemClock.sleep(POLL_INTERVAL_MS)
  }
}

/** Names the command that helps; users of the API read other words. Returns other errors unchanged. */
async function addAdvice(api: CommandApi, from: string, error: unknown): Promise<unknown> {
  if (!(error instanceof TassisError)) return error
  const { status, code, message } = error
  const advise = (advice: string) => new TassisError(status, { code, message: `${message} ${advice}` })
  if (code === 'domain_not_found') return advise(`\`tassis domains add ${domainOfMailbox(from)}\` does that.`)
  if (code !== 'account_paused') return error
  const { id } = (await api.account.get()).data
  return advise(`\`tassis accounts show ${id}\` shows it, \`tassis accounts resume ${id}\` ends a pause.`)
}

/** What became of a message that is final; of one that was captured, what makes the next one leave. */
async function describeEnd(api: CommandApi, { id, sentence, sandbox, state, domain_id: domainId }: Email) {
  if (!sandbox || state !== 'captured' || !domainId) return toPrintable(sentence)
  const { domain } = (await api.domains.get(domainId)).data
  return toPrintable(
    `${sentence} GET /v1/emails/${id}/captured shows it. To go live, publish what \`tassis domains records ${domain}\` prints, then run \`tassis domains verify ${domain}\`.`,
  )
}

function toRequest(options: SendOptions): SendEmailRequest {
  const { from, to, cc = [], bcc = [], subject, text, html, stream } = options
  const isEmpty = text === undefined && html === undefined
  return {
    from,
    to,
    cc,
    bcc,
    subject,
    text_body: isEmpty ? 'This message was sent with `tassis send`.\n' : (text ?? null),
    html_body: html ?? null,
    stream,
  }
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
