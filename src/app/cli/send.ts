/**
 * @module `tassis send`: sends one message and prints each of its events as it happens, until it is final. Without a running service this process
 * delivers, for as long as it follows.
 */
import type { Command } from 'commander'
import type { RecordedEvent } from '#features/core/events/model.ts'
import { acceptEmail } from '#features/sending/emails/accept.ts'
import { draftOf } from '#features/sending/emails/draft.ts'
import { SendRequest } from '#features/sending/emails/model.ts'
import { eventsOfEmail, findEmail } from '#features/sending/emails/read.ts'
import { isOpen, type Status } from '#features/sending/emails/status.ts'
import { findSendingDomain } from '#features/setup/domains/sending.ts'
import { systemClock } from '#platform/clock.ts'
import { AppError, invalid, notFound } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { checkOf } from '#platform/http/validation.ts'
import { parseUuid } from '#platform/ids.ts'
import { loadConfig } from '../settings.ts'
import { operatorOf } from './accounts.ts'
import { type Call, withData } from './call.ts'
import { operation } from './operation.ts'
import { type AccountOption, collected, type JsonOption, withAccount } from './options.ts'
import { distance, print, printable } from './output.ts'

export interface ShownEvent {
  /** Present for mail that is only captured. */
  readonly sandbox?: true
  readonly seq: number
  readonly type: string
  readonly at: string
  readonly recipient: string | null
  /** What it carries: `smtp_response`, `remote_mta`, `tls`, `reason`, `next_retry_at` (ms) and others. */
  readonly data: Readonly<Record<string, string | number | null>>
}

export const shownEvent = ({ seq, type, at, recipient, data, isSandbox }: RecordedEvent): ShownEvent => ({
  seq,
  type,
  at: isoTime(at),
  recipient,
  ...(isSandbox && { sandbox: true }),
  data: JSON.parse(data ?? '{}') as ShownEvent['data'],
})

const checkRequest = checkOf(SendRequest, 'email')

const send = operation(
  'emails.send',
  async ({ opened: { app } }, { account, request }: AccountOption & { readonly request: SendRequest }) => {
    const [fault] = checkRequest(request)
    if (fault) throw invalid(fault.field, `${fault.field} ${fault.message}.`)
    const actor = operatorOf(app, account)
    const draft = draftOf(app, request, undefined)
    const { response } = await acceptEmail(app, actor, draft).catch((error: unknown) => {
      throw isUnknownDomain(error) ? unknownDomain(draft.fromDomain) : error
    })
    const domain = findSendingDomain(app.db, actor.accountId, draft.fromDomain)?.domain ?? draft.fromDomain
    return { ...response, account_id: actor.accountUuid, sending_domain: domain }
  },
)

const isUnknownDomain = (error: unknown): boolean => error instanceof AppError && error.code === 'domain_not_found'

const unknownDomain = (domain: string): AppError =>
  invalid(
    'from',
    `The domain ${domain} is not registered on this account; add it with \`tassis domains add ${domain}\` (or POST /v1/domains).`,
    'domain_not_found',
  )

const follow = operation(
  'emails.follow',
  ({ opened: { app } }, input: { readonly account: string; readonly id: string; readonly afterSeq: number }) => {
    const { accountId } = operatorOf(app, input.account)
    const uuid = parseUuid(input.id)
    const email = uuid && findEmail(app.db, accountId, uuid)
    if (!email) throw notFound('email_not_found', 'There is no email with this id.')
    const events = eventsOfEmail(app, accountId, email.id)
      .filter(({ seq }) => seq > input.afterSeq)
      .map(shownEvent)
    return {
      status: email.status,
      sandbox: email.sandbox,
      is_final: !email.recipients.some(({ status }) => isOpen(status)),
      recipients: email.recipients.map(({ address, status }) => ({ address, status })),
      events,
    }
  },
)

export const sendOperations = [send, follow]

interface SendOptions extends JsonOption, AccountOption {
  readonly from: string
  readonly to: readonly string[]
  readonly cc?: readonly string[]
  readonly bcc?: readonly string[]
  readonly subject: string
  readonly text?: string
  readonly html?: string
  readonly stream?: string
  readonly follow: boolean
}

export function addSendCommand(program: Command): void {
  withAccount(
    program
      .command('send')
      .description('send one message and follow it until it is final; exit code 1 when not every recipient was reached')
      .option('--json', 'print one JSON object a line, for programs: the acceptance, each event, the end'),
  )
    .requiredOption('--from <address>', 'sender; its domain must be registered')
    .requiredOption('--to <address>', 'recipient; several times for several', collected)
    .option('--cc <address>', 'Cc recipient; several times for several', collected)
    .option('--bcc <address>', 'Bcc recipient; several times for several', collected)
    .option('--subject <text>', 'subject', 'A test message')
    .option('--text <text>', 'text body; when neither body is given, a sentence')
    .option('--html <html>', 'HTML body')
    .option('--stream <slug>', 'message stream')
    .option('--no-follow', 'end as soon as it is accepted')
    .action(async (options: SendOptions) => {
      const { config } = loadConfig()
      const interrupted = new AbortController()
      const interrupt = () => (interrupted.signal.aborted ? process.exit(1) : interrupted.abort())
      process.on('SIGINT', interrupt).on('SIGTERM', interrupt)
      const isSent = await withData(config, (call) => sendAndFollow(call, options, interrupted.signal), {
        delivers: options.follow,
      })
      if (!isSent) process.exitCode = 1
    })
}

const LOOK_EVERY_MS = 100

/** True when it was sent, or only accepted and not to be followed. */
async function sendAndFollow(call: Call, options: SendOptions, signal: AbortSignal): Promise<boolean> {
  const { account } = options
  const sent = await call(send, { ...(account !== undefined && { account }), request: requestOf(options) })
  const tell = (value: unknown, text: string) => print(options.json ? JSON.stringify(value) : text)
  tell(
    sent,
    `Accepted as ${sent.id}.${sent.sandbox ? ` ${sent.sending_domain} was never verified, so the message is captured and reaches nobody.` : ''}`,
  )
  if (!options.follow) return true
  for (let afterSeq = 0; ; ) {
    const {
      status,
      is_final: isFinal,
      sandbox,
      recipients,
      events,
    } = await call(follow, { account: sent.account_id, id: sent.id, afterSeq })
    for (const event of events) {
      tell(event, eventLine(event))
      afterSeq = event.seq
    }
    if (isFinal) {
      tell(
        ending(sent.id, status, recipients, sandbox),
        sandbox ? capturedText(sent.id, sent.sending_domain, status, recipients) : endingText(status, recipients),
      )
      return status === 'sent'
    }
    if (signal.aborted) {
      tell(ending(sent.id, status, recipients, sandbox), `It is still ${status}; it stays in the queue of the service.`)
      return false
    }
    await systemClock.sleep(LOOK_EVERY_MS)
  }
}

interface RecipientStatus {
  readonly address: string
  readonly status: Status
}

const notSent = (recipients: readonly RecipientStatus[]): RecipientStatus[] =>
  recipients.filter(({ status }) => status !== 'sent')

function ending(id: string, status: Status, recipients: readonly RecipientStatus[], sandbox: boolean) {
  const others = notSent(recipients)
  return {
    id,
    status,
    ...(sandbox && { sandbox }),
    recipient_count: recipients.length,
    delivered_count: recipients.length - others.length,
    not_delivered: others,
  }
}

function capturedText(id: string, domain: string, status: Status, recipients: readonly RecipientStatus[]): string {
  if (status !== 'sent') return endingText(status, recipients)
  return printable(
    [
      `It was captured, not sent: ${domain} was never verified. GET /v1/emails/${id}/captured shows it.`,
      `To go live, publish what \`tassis domains records ${domain}\` prints, then run \`tassis domains verify ${domain}\`.`,
    ].join(' '),
  )
}

/** `2 of 3 delivered; not carl@example.net (bounced).` */
function endingText(status: Status, recipients: readonly RecipientStatus[]): string {
  if (recipients.length === 1) return `It is ${status}.`
  const others = notSent(recipients)
  const not = others.map((recipient) => `${recipient.address} (${recipient.status})`).join(', ')
  return printable(
    `${recipients.length - others.length} of ${recipients.length} delivered${not === '' ? '' : `; not ${not}`}.`,
  )
}

function requestOf(options: SendOptions): SendRequest {
  const { from, to, cc, bcc, subject, text, html, stream } = options
  const hasBody = text !== undefined || html !== undefined
  return {
    from,
    to: [...to],
    subject,
    ...(cc && { cc: [...cc] }),
    ...(bcc && { bcc: [...bcc] }),
    ...(hasBody ? {} : { text_body: 'This message was sent with `tassis send`.\n' }),
    ...(text !== undefined && { text_body: text }),
    ...(html !== undefined && { html_body: html }),
    ...(stream !== undefined && { stream }),
  }
}

/** `14:02:11.205Z  deferred   bob@example.net  451 later; next try in 5 min  (mx.example.net [192.0.2.1], TLSv1.3 …)` */
export function eventLine({ type, at, recipient, data, sandbox }: ShownEvent): string {
  const { next_retry_at: nextRetryAt } = data
  const said = data['smtp_response'] ?? data['reason']
  const next = typeof nextRetryAt === 'number' ? `next try ${distance(nextRetryAt, Date.parse(at))}` : ''
  const details = [said, next].filter((part) => part !== undefined && part !== null && part !== '').join('; ')
  const session = [data['remote_mta'], data['tls']].filter((part) => part).join(', ')
  const columns = [
    at.slice(11),
    type.padEnd(9),
    sandbox ? 'sandbox' : '',
    recipient ?? '',
    details,
    session && `(${session})`,
  ]
  return printable(
    columns
      .filter((column) => column !== '')
      .join('  ')
      .trimEnd(),
  )
}
