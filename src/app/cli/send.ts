/**
 * @module `tassis send`: sends one message and prints its events until it is final. Without a running service, this
 * process delivers the message while it follows the events.
 */
import type { EmailEvent, SendEmailRequest } from '#client/api.ts'
import { isOpen, isStatus } from '#features/sending/queue/status.ts'
import { formatRelativeTime } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { type CommandApi, withApi } from './api.ts'
import type { Command } from './command.ts'
import { type AccountOption, collectOption } from './options.ts'
import { formatJsonLine, type JsonOption, print, toPrintable } from './output.ts'

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
  const { data: sent } = await api.emails.send(toRequest(options))
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

function toRequest({ from, to, cc, bcc, subject, text, html, stream }: SendOptions): SendEmailRequest {
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
