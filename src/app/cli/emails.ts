/** @module `tassis emails`, and `show`: the recipients and the history of one email. Never writes. */
import type { Command } from 'commander'
import { explainEmail } from '#features/sending/delivery/control/explain.ts'
import { createMaxAttempts } from '#features/sending/delivery/verdict/outcome.ts'
import type { EmailRecipient, EmailRow } from '#features/sending/emails/model.ts'
import { readEmailEvents } from '#features/sending/emails/read.ts'
import { emailRowWire, recipientWire } from '#features/sending/emails/wire.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { addEmailActionCommands, emailActionAdminCommands } from './email-actions.ts'
import { addEmailListCommand, emailListAdminCommands } from './email-list.ts'
import { addExplainCommand } from './explain.ts'
import { EMAIL_ARGUMENT, requireEmail } from './find-email.ts'
import { type JsonOption, withJson } from './options.ts'
import { formatCount, formatUtc, printResult, toPrintable } from './output.ts'
import { type EventView, formatEvent, toEventView } from './send.ts'

interface EmailView extends EmailRow {
  readonly account: string
  readonly sentence: string
  readonly recipients: readonly EmailRecipient[]
  readonly history: readonly EventView[]
}

const show = defineAdminCommand('emails.show', ({ opened: { app } }, { id }: { readonly id: string }): EmailView => {
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
  withJson(
    emails.command('show').description('show an email: its recipients, the replies of their servers, its events'),
  )
    .argument('<id>', EMAIL_ARGUMENT)
    .action(async (id: string, options: JsonOption) => {
      printResult(options, await runAdminCommand(show, { id }), formatEmail)
    })

  addExplainCommand(emails)
  addEmailActionCommands(emails)
}

function formatEmail(email: EmailView): string {
  const lines: [name: string, value: string][] = [
    ['Email', email.id],
    ['Account', `${email.account} (${email.account_id})`],
    ['From', email.from_address],
    ['To', email.to],
    ...(email.cc.length > 0 ? [['Cc', email.cc.join(', ')] as [string, string]] : []),
    ...(email.bcc.length > 0 ? [['Bcc', email.bcc.join(', ')] as [string, string]] : []),
    ['Subject', email.subject],
    ...(email.tags.length > 0 ? [['Tags', email.tags.join(', ')] as [string, string]] : []),
    ['Message-ID', email.message_id],
    ['Accepted', formatUtc(email.created_at)],
    ...(email.scheduled_at ? [['Scheduled', formatUtc(email.scheduled_at)] as [string, string]] : []),
    ['State', `${email.state}. ${email.sentence}`],
    ...(email.sandbox
      ? [['Sandbox', 'its domain was never verified, or its recipients are at the simulator'] as [string, string]]
      : []),
  ]
  return [
    ...lines.map(([name, value]) => `${`${name}:`.padEnd(12)}${toPrintable(value)}`),
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
