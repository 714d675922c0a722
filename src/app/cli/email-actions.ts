/** @module `tassis emails retry`, `cancel` and `resend`: what the operator does with one email. */

import type { Command } from 'commander'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { CLI_OPERATOR } from '#features/core/audit-logs/audit.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { listDeadLettersOfEmail } from '#features/sending/dead-letters/read.ts'
import { changeMail } from '#features/sending/delivery/control/operator-queue.ts'
import { describeResendRisk, previewResend, type ResendRisk, resendEmail } from '#features/sending/emails/resend.ts'
import { cancelEmail } from '#features/sending/emails/scheduled.ts'
import { isOpen } from '#features/sending/queue/status.ts'
import { conflict } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { truncate } from '#platform/text.ts'
import { EMAIL_ARGUMENT, type FoundEmail, requireEmail } from '../find-email.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand, withData } from './call.ts'
import { confirmAction } from './confirm.ts'
import { addCommand, collectOption, type JsonOption } from './options.ts'
import { formatCount, formatUtc, printResult, toPrintable } from './output.ts'
import { formatHeldAndInDelivery, formatSuspended } from './queue-format.ts'

interface IdInput {
  readonly id: string
}

interface EmailName {
  readonly id: string
  readonly account: string
  readonly to: string
  readonly subject: string
}

const toName = ({ email, account }: FoundEmail): EmailName => ({
  id: formatUuid(email.uuid),
  account,
  to: email.recipients[0]?.address ?? '',
  subject: email.subject,
})

const retry = defineAdminCommand('emails.retry', async ({ opened: { app }, delivery }, { id }: IdInput) => {
  const found = requireEmail(app, id)
  const { email, accountId } = found
  if (email.status === 'scheduled')
    throw conflict(
      'email_scheduled',
      `The email is scheduled for ${formatUtc(isoTime(email.scheduledAt ?? 0))}, so there is nothing to retry; \`tassis emails cancel ${formatUuid(email.uuid)}\` cancels it.`,
    )
  if (!email.recipients.some(({ status }) => isOpen(status))) throw createEndedError(app, found)
  const { changed, in_delivery, held, suspended } = await changeMail(
    app,
    CLI_OPERATOR,
    'retry',
    { emailId: email.id, accountId },
    { reason: '', after: undefined },
  )
  return {
    ...toName(found),
    changed,
    in_delivery,
    held,
    suspended,
    delivering: delivery !== undefined,
  }
})

/** Says what sends an email again that has ended. */
function createEndedError(app: App, { email }: FoundEmail) {
  const id = formatUuid(email.uuid)
  const letters = listDeadLettersOfEmail(app.db, email.id)
  const [first] = letters
  const ways = [
    ...(first
      ? [
          letters.length === 1
            ? `\`tassis dead-letters retry ${first.id}\` tries ${toPrintable(first.to)} again`
            : `\`tassis dead-letters retry --email ${id}\` tries the ${letters.length} recipients again that have a dead letter`,
        ]
      : []),
    `\`tassis emails resend ${id}\` sends it as a new email`,
  ]
  return conflict('email_ended', `The email is ${email.status} and waits for nothing; ${ways.join(', ')}.`)
}

const cancel = defineAdminCommand('emails.cancel', async ({ opened: { app } }, { id }: IdInput) => {
  const found = requireEmail(app, id)
  const { email, accountId } = found
  if (email.status === 'scheduled') {
    await cancelEmail(app, toOperatorActor(getAccount(app.config, app.db, accountId)), formatUuid(email.uuid))
    return { ...toName(found), cancelled: email.recipients.length, in_delivery: 0 }
  }
  if (!email.recipients.some(({ status }) => isOpen(status)))
    throw conflict('email_ended', `The email is ${email.status}: nothing of it waits any more.`)
  const { changed, in_delivery } = await changeMail(
    app,
    CLI_OPERATOR,
    'drop',
    { emailId: email.id, accountId },
    { reason: '', after: undefined },
  )
  return { ...toName(found), cancelled: changed, in_delivery }
})

interface ResendInput extends IdInput {
  readonly to?: readonly string[] | undefined
}

function resolveResend(app: App, { id, to }: ResendInput) {
  const found = requireEmail(app, id)
  return {
    found,
    actor: toOperatorActor(getAccount(app.config, app.db, found.accountId)),
    emailId: formatUuid(found.email.uuid),
    request: to === undefined ? {} : { to: [...to] },
  }
}

const preview = defineAdminCommand('emails.preview-resend', ({ opened: { app } }, input: ResendInput) => {
  const { found, actor, emailId, request } = resolveResend(app, input)
  return { ...toName(found), risks: previewResend(app, actor, emailId, request) }
})

const resend = defineAdminCommand('emails.resend', async ({ opened: { app }, delivery }, input: ResendInput) => {
  const { found, actor, emailId, request } = resolveResend(app, input)
  const { response, risks } = await resendEmail(app, actor, emailId, request, undefined, () => undefined)
  return {
    ...toName(found),
    new_id: response.id,
    warnings: risks.map(describeResendRisk),
    delivering: delivery !== undefined,
  }
})

export const emailActionAdminCommands = [retry, cancel, preview, resend]

/** @param emails the group `tassis emails` */
export function addEmailActionCommands(emails: Command): void {
  addCommand(emails, 'retry', 'make an email due now that waits for another attempt; what is held stays held')
    .argument('<id>', EMAIL_ARGUMENT)
    .action(async (id: string, options: JsonOption) => {
      printResult(options, await runAdminCommand(retry, { id }), formatRetried)
    })

  addCommand(emails, 'cancel', 'cancel an email that is scheduled or waits; no bounce, and its quota is given back')
    .argument('<id>', EMAIL_ARGUMENT)
    .action(async (id: string, options: JsonOption) => {
      printResult(
        options,
        await runAdminCommand(cancel, { id }),
        (shown) =>
          `Cancelled for ${formatCount(shown.cancelled, 'recipient')}: ${formatName(shown)}${shown.in_delivery === 0 ? '' : `; ${shown.in_delivery} in delivery left alone`}.`,
      )
    })

  addCommand(emails, 'resend', 'send a stored email that has ended again, as a new email')
    .argument('<id>', EMAIL_ARGUMENT)
    .option('--to <address>', 'only to this recipient of the email; repeat for several', collectOption)
    .option('--yes', 'do not ask, although a recipient may get it twice or is suppressed')
    .action(async (id: string, { to, yes, ...options }: JsonOption & { to?: readonly string[]; yes?: boolean }) => {
      const input = { id, ...(to && { to }) }
      const done = await withData(loadConfig().config, async (call) => {
        confirmRisks(yes, (await call(preview, input)).risks)
        return call(resend, input)
      })
      printResult(options, done, (shown) =>
        [
          ...shown.warnings.map((warning) => `Warning: ${toPrintable(warning)}`),
          `Accepted as ${shown.new_id}: ${formatName(shown)}.${formatIfStopped(shown)} \`tassis emails explain ${shown.new_id}\` shows how it goes.`,
        ].join('\n'),
      )
    })
}

/** Recipients named in the question. */
const MAX_NAMED_RISKS = 10

/**
 * Asks if a recipient may get the email twice or is suppressed. Never asks about recipients who got it: that they get
 * it again is the purpose of a resend.
 */
function confirmRisks(yes: boolean | undefined, risks: readonly ResendRisk[]): void {
  const asked = risks.filter(({ kind }) => kind !== 'delivered')
  if (asked.length === 0) return
  const named = asked.slice(0, MAX_NAMED_RISKS).map((risk) => toPrintable(describeResendRisk(risk)))
  const others =
    asked.length > named.length
      ? [`${formatCount(asked.length - named.length, 'more recipient')} may get it twice or get none.`]
      : []
  confirmAction({ yes }, [...named, ...others].join(' ').replace(/\.$/, ''), 'send it again')
}

const formatRetried = (
  shown: EmailName & {
    readonly changed: number
    readonly in_delivery: number
    readonly held: number
    readonly suspended: readonly string[]
    readonly delivering: boolean
  },
): string =>
  [
    `${shown.changed + shown.held + shown.in_delivery === 0 ? 'Due already' : `${formatCount(shown.changed, 'recipient')} due now`}${formatHeldAndInDelivery(shown)}: ${formatName(shown)}.${formatIfStopped(shown)}`,
    ...(shown.held > 0 ? ['`tassis queue` shows why, and what ends it.'] : []),
    ...shown.suspended.map(formatSuspended),
    `\`tassis emails explain ${shown.id}\` shows how it goes.`,
  ].join('\n')

const MAX_SUBJECT_LENGTH = 60

const formatName = ({ to, subject }: EmailName): string =>
  `"${truncate(toPrintable(subject), MAX_SUBJECT_LENGTH)}" to ${toPrintable(to)}`

const formatIfStopped = ({ delivering }: { readonly delivering: boolean }): string =>
  delivering ? '' : ' No service is running, so nothing is sent until one starts.'
