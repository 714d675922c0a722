/** @module `tassis emails`, and `show`: the recipients and the history of one email. Never writes. */
import type { Command } from 'commander'
import type { RecordedEvent } from '#features/core/events/model.ts'
import { explainEmail } from '#features/sending/delivery/control/explain.ts'
import { createMaxAttempts } from '#features/sending/delivery/verdict/outcome.ts'
import type { EmailRecipient } from '#features/sending/emails/model.ts'
import { readEmailEvents } from '#features/sending/emails/read.ts'
import { emailRowWire, recipientWire } from '#features/sending/emails/wire.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatRelativeTime } from '#platform/text.ts'
import { EMAIL_ARGUMENT, requireEmail } from '../find-email.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { addEmailActionCommands, emailActionAdminCommands } from './email-actions.ts'
import { addEmailListCommand, emailListAdminCommands } from './email-list.ts'
import { addExplainCommand } from './explain.ts'
import { addCommand, type JsonOption } from './options.ts'
import { formatCount, formatFields, formatUtc, printResult, toPrintable } from './output.ts'

const show = defineAdminCommand('emails.show', ({ opened: { app } }, { id }: { readonly id: string }) => {
  const { email, accountId, account } = requireEmail(app, id)
  const events = readEmailEvents(app, accountId, email.id)
  return {
    ...emailRowWire(email, createMaxAttempts(app.config.retryExpiryHours)),
    account,
    sentence: explainEmail(email, events).sentence,
    recipients: email.recipients.map(recipientWire),
    history: events.map(toEventView),
  }
})

export const emailAdminCommands = [...emailListAdminCommands, show, ...emailActionAdminCommands]

export function addEmailCommands(program: Command): void {
  const emails = program.command('emails').description('find emails, explain them, and retry, cancel or resend one')

  addEmailListCommand(emails)
  addCommand(emails, 'show', 'show an email: its recipients, the replies of their servers, its events')
    .argument('<id>', EMAIL_ARGUMENT)
    .action(async (id: string, options: JsonOption) => {
      printResult(options, await runAdminCommand(show, { id }), formatEmail)
    })

  addExplainCommand(emails)
  addEmailActionCommands(emails)
}

function formatEmail(email: Awaited<ReturnType<typeof show.run>>): string {
  return [
    formatFields([
      ['Email', email.id],
      ['Account', `${email.account} (${email.account_id})`],
      ['From', email.from_address],
      ['To', email.to],
      ['Cc', email.cc.length > 0 ? email.cc.join(', ') : null],
      ['Bcc', email.bcc.length > 0 ? email.bcc.join(', ') : null],
      ['Subject', email.subject],
      ['Tags', email.tags.length > 0 ? email.tags.join(', ') : null],
      ['Message-ID', email.message_id],
      ['Accepted', formatUtc(email.created_at)],
      ['Scheduled', email.scheduled_at ? formatUtc(email.scheduled_at) : null],
      ['State', `${email.state}. ${email.sentence}`],
      ['Sandbox', email.sandbox ? 'its domain was never verified, or its recipients are at the simulator' : null],
    ]),
    '',
    formatCount(email.recipients.length, 'recipient'),
    ...email.recipients.flatMap(formatRecipient),
    '',
    formatCount(email.history.length, 'event'),
    ...email.history.map((event) => `  ${event.at.slice(0, 10)} ${formatEvent(event)}`),
  ].join('\n')
}

function formatRecipient(recipient: EmailRecipient): string[] {
  const { kind, address, status, attempts, smtp_response: reply, next_retry_at: nextAt } = recipient
  const bounce = [recipient.bounce_type, recipient.bounce_category].filter((part) => part !== null).join(', ')
  const details = [
    `${status} after ${formatCount(attempts, 'attempt')}`,
    ...(bounce === '' ? [] : [bounce]),
    ...(recipient.delivered_at === null ? [] : [`delivered ${formatUtc(recipient.delivered_at)}`]),
    ...(nextAt === null ? [] : [`next attempt ${formatUtc(nextAt)}`]),
  ]
  return [
    toPrintable(`  ${kind.padEnd(3)}  ${address}  ${details.join('; ')}`),
    ...(reply === null ? [] : [toPrintable(`       ${reply}`)]),
  ]
}

interface EventView {
  /** Set for mail that is only captured. */
  readonly sandbox?: true | undefined
  readonly seq: number
  readonly type: string
  readonly at: string
  readonly recipient: string | null
  /** Details such as `smtp_response`, `remote_mta`, `tls`, `reason` and `next_retry_at` (ms). */
  readonly data: Readonly<Record<string, string | number | null>>
}

const toEventView = ({ seq, type, at, recipient, data, isSandbox }: RecordedEvent): EventView => ({
  seq,
  type,
  at: isoTime(at),
  recipient,
  ...(isSandbox && { sandbox: true }),
  data: JSON.parse(data ?? '{}') as EventView['data'],
})

/**
 * Formats an event, such as `14:02:11.205Z  deferred   bob@example.net  451 later; next attempt in 5 min
 * (mx.example.net [192.0.2.1], TLSv1.3 …)`.
 */
function formatEvent({ type, at, recipient, data, sandbox }: EventView): string {
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
