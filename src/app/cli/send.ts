/**
 * @module `tassis send`: sends one message and prints its events until it is final. Without a running service, this
 * process delivers the message while it follows the events.
 */
import type { Command } from 'commander'
import { findSendingBlock } from '#features/core/accounts/pause.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import type { RecordedEvent } from '#features/core/events/model.ts'
import { acceptEmail } from '#features/sending/accept/accept.ts'
import { createDraft } from '#features/sending/accept/draft.ts'
import { SendRequest } from '#features/sending/accept/model.ts'
import { explainEmail } from '#features/sending/delivery/control/explain.ts'
import { findEmail, readEmailEvents } from '#features/sending/emails/read.ts'
import { simulatorDomain } from '#features/sending/queue/lanes.ts'
import { isOpen, type Status } from '#features/sending/queue/status.ts'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { AppError, invalid, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { createCheck } from '#platform/http/validation.ts'
import { parseUuid } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { formatRelativeTime } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import { resolveOperator } from '../find-account.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand } from './admin-command.ts'
import { type Call, withData } from './call.ts'
import { type AccountOption, collectOption, type JsonOption, withAccount } from './options.ts'
import { print, toPrintable } from './output.ts'
import { formatSendingBlock } from './queue-format.ts'

export interface EventView {
  /** Set for mail that is only captured. */
  readonly sandbox?: true | undefined
  readonly seq: number
  readonly type: string
  readonly at: string
  readonly recipient: string | null
  /** Details such as `smtp_response`, `remote_mta`, `tls`, `reason` and `next_retry_at` (ms). */
  readonly data: Readonly<Record<string, string | number | null>>
}

export const toEventView = ({ seq, type, at, recipient, data, isSandbox }: RecordedEvent): EventView => ({
  seq,
  type,
  at: isoTime(at),
  recipient,
  ...(isSandbox && { sandbox: true }),
  data: JSON.parse(data ?? '{}') as EventView['data'],
})

const checkRequest = createCheck(SendRequest, 'email')

const send = defineAdminCommand(
  'emails.send',
  async ({ opened: { app } }, { account, request }: AccountOption & { readonly request: SendRequest }) => {
    const [problem] = checkRequest(request)
    if (problem) throw invalid(problem.field, `${problem.field} ${problem.message}.`)
    const actor = resolveOperator(app, account)
    const draft = createDraft(app, request, undefined)
    const { response } = await acceptEmail(app, actor, draft).catch((error: unknown) => {
      throw explainRefusal(app, actor, draft.fromDomain, error)
    })
    const domain = findSendingDomain(app.db, actor.accountId, draft.fromDomain)?.domain ?? draft.fromDomain
    return { ...response, account_id: actor.accountUuid, sending_domain: domain }
  },
)

/** Names the command that helps; users of the API read other words. Returns other errors unchanged. */
function explainRefusal(app: App, { accountId, accountUuid }: Actor, domain: string, error: unknown): unknown {
  if (!(error instanceof AppError)) return error
  const block = error.code === 'account_paused' ? findSendingBlock(app.db, accountId) : undefined
  if (block !== undefined) return new AppError(403, 'account_paused', formatSendingBlock(block, accountUuid))
  if (error.code !== 'domain_not_found') return error
  return invalid(
    'from',
    `The domain ${domain} is not registered on this account; add it with \`tassis domains add ${domain}\` (or POST /v1/domains).`,
    'domain_not_found',
  )
}

const follow = defineAdminCommand(
  'emails.follow',
  ({ opened: { app } }, input: { readonly account: string; readonly id: string; readonly afterSeq: number }) => {
    const { accountId } = resolveOperator(app, input.account)
    const uuid = parseUuid(input.id)
    const email = uuid && findEmail(app.db, accountId, uuid)
    if (!email) throw notFound('email_not_found', 'Email not found.')
    const events = readEmailEvents(app, accountId, email.id)
    return {
      status: email.status,
      sentence: explainEmail(email, events).sentence,
      sandbox: email.sandbox,
      is_final: !email.recipients.some(({ status }) => isOpen(status)),
      recipients: email.recipients.map(({ address, status }) => ({ address, status })),
      events: events.filter(({ seq }) => seq > input.afterSeq).map(toEventView),
    }
  },
)

export const sendAdminCommands = [send, follow]

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
  withAccount(
    program
      .command('send')
      .description('send one message and follow it until it is final; exit code 1 if a recipient was not reached')
      .option('--json', 'print one JSON object per line: the acceptance, each event, the result'),
  )
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
      const { config } = loadConfig()
      const interrupted = new AbortController()
      const interrupt = () => (interrupted.signal.aborted ? process.exit(1) : interrupted.abort())
      process.on('SIGINT', interrupt).on('SIGTERM', interrupt)
      const isSent = await withData(config, (call) => sendAndFollow(call, options, config, interrupted.signal), {
        canDeliver: options.follow,
      })
      if (!isSent) process.exitCode = 1
    })
}

const POLL_INTERVAL_MS = 100

/** Returns true when the message was sent, or accepted with --no-follow. */
async function sendAndFollow(
  call: Call,
  options: SendOptions,
  config: Pick<Config, 'hostname'>,
  signal: AbortSignal,
): Promise<boolean> {
  const { account } = options
  const sent = await call(send, { account, request: toRequest(options) })
  const printLine = (value: unknown, text: string) => print(options.json ? JSON.stringify(value) : text)
  const isSimulated = options.to.some((to) => domainOfMailbox(to).toLowerCase() === simulatorDomain(config))
  const isCaptured = sent.sandbox && !isSimulated
  printLine(
    sent,
    `Accepted as ${sent.id}.${isCaptured ? ` ${sent.sending_domain} was never verified, so the message is captured, not sent.` : isSimulated ? ' It goes to the simulator.' : ''}`,
  )
  if (!options.follow) return true
  for (let afterSeq = 0; ; ) {
    const {
      status,
      sentence,
      is_final: isFinal,
      sandbox,
      recipients,
      events,
    } = await call(follow, { account: sent.account_id, id: sent.id, afterSeq })
    for (const event of events) {
      printLine(event, formatEvent(event))
      afterSeq = event.seq
    }
    if (isFinal) {
      printLine(
        toSummary(sent.id, status, recipients, sandbox),
        toPrintable(`${sentence}${isCaptured ? formatGoLive(sent.id, sent.sending_domain) : ''}`),
      )
      return status === 'sent'
    }
    if (signal.aborted) {
      printLine(
        toSummary(sent.id, status, recipients, sandbox),
        `It is still ${status}; it stays in the queue of the service.`,
      )
      return false
    }
    await systemClock.sleep(POLL_INTERVAL_MS)
  }
}

interface RecipientStatus {
  readonly address: string
  readonly status: Status
}

const filterUnsent = (recipients: readonly RecipientStatus[]): RecipientStatus[] =>
  recipients.filter(({ status }) => status !== 'sent')

function toSummary(id: string, status: Status, recipients: readonly RecipientStatus[], sandbox: boolean) {
  const unsent = filterUnsent(recipients)
  return {
    id,
    status,
    ...(sandbox && { sandbox }),
    recipient_count: recipients.length,
    delivered_count: recipients.length - unsent.length,
    not_delivered: unsent,
  }
}

const formatGoLive = (id: string, domain: string): string =>
  ` GET /v1/emails/${id}/captured shows it. To go live, publish what \`tassis domains records ${domain}\` prints, then run \`tassis domains verify ${domain}\`.`

function toRequest(options: SendOptions): SendRequest {
  const { from, to, cc = [], bcc = [], subject, text, html, stream } = options
  const isEmpty = text === undefined && html === undefined
  return {
    from,
    to: [...to],
    cc: [...cc],
    bcc: [...bcc],
    subject,
    text_body: isEmpty ? 'This message was sent with `tassis send`.\n' : (text ?? null),
    html_body: html ?? null,
    ...(stream !== undefined && { stream }),
  }
}

/**
 * Formats an event, such as `14:02:11.205Z  deferred   bob@example.net  451 later; next attempt in 5 min
 * (mx.example.net [192.0.2.1], TLSv1.3 …)`.
 */
export function formatEvent({ type, at, recipient, data, sandbox }: EventView): string {
  const { next_retry_at: nextRetryAt } = data
  const reply = data['smtp_response'] ?? data['reason']
  const next = typeof nextRetryAt === 'number' ? `next attempt ${formatRelativeTime(nextRetryAt, Date.parse(at))}` : ''
  const details = [reply, next].filter((part) => part !== undefined && part !== null && part !== '').join('; ')
  const session = [data['remote_mta'], data['tls']].filter((part) => part).join(', ')
  const columns = [
    at.slice(11),
    type.padEnd(9),
    sandbox ? 'sandbox' : '',
    recipient ?? '',
    details,
    session && `(${session})`,
  ]
  return toPrintable(
    columns
      .filter((column) => column !== '')
      .join('  ')
      .trimEnd(),
  )
}
