/** @module `tassis emails retry`, `cancel` and `resend`: what the operator does with one email. */

import type { Command } from 'commander'
import type { Email } from '#client/api.ts'
import { truncate } from '#platform/text.ts'
import { apiAction, type CommandApi, findOne } from './api.ts'
import { CommandError } from './errors.ts'
import { confirmAction } from './input.ts'
import { addCommand, collectOption, EMAIL_ARGUMENT, type JsonOption } from './options.ts'
import { formatCount, formatUtc, printResult, toPrintable } from './output.ts'
import { formatHeldAndInDelivery, formatInDelivery, formatSuspended } from './queue.ts'

interface ResendOptions extends JsonOption {
  readonly to?: readonly string[]
  readonly yes?: boolean
}

/** @param emails the group `tassis emails` */
export function addEmailActionCommands(emails: Command): void {
  addCommand(emails, 'retry', 'make an email due now that waits for another attempt; what is held stays held')
    .argument('<id>', EMAIL_ARGUMENT)
    .action(
      apiAction(async ({ api, options }, text) => {
        const email = await readEmail(api, text)
        if (email.status === 'scheduled')
          throw new CommandError(
            `The email is scheduled for ${formatUtc(email.scheduled_at ?? '')}, so there is nothing to retry; \`tassis emails cancel ${email.id}\` cancels it.`,
            'email_scheduled',
          )
        await requireOpen(api, email)
        const done = await api.operator.retryQueue({ email_id: email.id })
        printResult(options, done, ({ data }) =>
          [
            `${data.changed + data.held + data.in_delivery === 0 ? 'Due already' : `${formatCount(data.changed, 'recipient')} due now`}${formatHeldAndInDelivery(data)}: ${formatName(email)}.${formatIfStopped(api)}`,
            ...(data.held > 0 ? ['`tassis queue` shows why, and what ends it.'] : []),
            ...data.suspended.map(formatSuspended),
            `\`tassis emails explain ${email.id}\` shows how it goes.`,
          ].join('\n'),
        )
      }),
    )

  addCommand(emails, 'cancel', 'cancel an email that is scheduled or waits; no bounce, and its quota is given back')
    .argument('<id>', EMAIL_ARGUMENT)
    .action(
      apiAction(async ({ api, options }, text) => {
        const email = await readEmail(api, text)
        if (!isOpen(email))
          throw new CommandError(`The email is ${email.status}: nothing of it waits any more.`, 'email_ended')
        const { id, recipients } = email
        const done =
          email.status === 'scheduled'
            ? await api.as(email.account_id).emails.cancel(id)
            : await api.operator.dropQueue({ email_id: id })
        const { changed, in_delivery: left } =
          'changed' in done.data ? done.data : { changed: recipients.length, in_delivery: 0 }
        printResult(
          options,
          done,
          () => `Cancelled for ${formatCount(changed, 'recipient')}${formatInDelivery(left)}: ${formatName(email)}.`,
        )
      }),
    )

  addCommand(emails, 'resend', 'send a stored email that has ended again, as a new email')
    .argument('<id>', EMAIL_ARGUMENT)
    .option('--to <address>', 'only to this recipient of the email; repeat for several', collectOption)
    .option('--yes', 'do not ask, although a recipient may get it twice')
    .action(
      apiAction<ResendOptions>(async ({ api, options }, text) => {
        const email = await readEmail(api, text)
        confirmTwice(email, options)
        const done = await api.as(email.account_id).emails.resend(email.id, options.to ? { to: options.to } : {})
        printResult(options, done, ({ data: { id, warnings = [] } }) =>
          [
            ...warnings.map((warning) => `Warning: ${toPrintable(warning)}`),
            `Accepted as ${id}: ${formatName(email)}.${formatIfStopped(api)} \`tassis emails explain ${id}\` shows how it goes.`,
          ].join('\n'),
        )
      }),
    )
}

async function readEmail(api: CommandApi, text: string): Promise<Email> {
  const found = await findOne(api, 'email', text)
  return (await found.api.emails.get(found.id)).data
}

const OPEN = ['scheduled', 'queued', 'processing']

const isOpen = ({ recipients }: Email): boolean => recipients.some(({ status }) => OPEN.includes(status))

/** Says what sends an email again that has ended. */
async function requireOpen(api: CommandApi, email: Email): Promise<void> {
  if (isOpen(email)) return
  const { id, status } = email
  const { data: letters } = await api.operator.listDeadLetters({ email_id: id })
  const again = letters.length === 0 ? '' : `\`tassis dead-letters retry --email ${id}\` tries its dead letters again, `
  throw new CommandError(
    `The email is ${status} and waits for nothing; ${again}\`tassis emails resend ${id}\` sends it as a new email.`,
    'email_ended',
  )
}

/** Recipients named in the question. */
const MAX_NAMED = 10

/** Asks if a recipient may have got the first email. Not about those who got it: that is the purpose of a resend. */
function confirmTwice({ recipients }: Email, options: ResendOptions): void {
  const wanted = options.to?.map((address) => address.toLowerCase())
  const uncertain = recipients
    .filter(({ address, status }) => status === 'uncertain' && (wanted?.includes(address.toLowerCase()) ?? true))
    .map(({ address }) => toPrintable(address))
  if (uncertain.length === 0) return
  const named = uncertain.slice(0, MAX_NAMED).join(', ')
  const others = uncertain.length > MAX_NAMED ? `, and ${uncertain.length - MAX_NAMED} more` : ''
  confirmAction(options, `${named}${others} may have got the first email, so it may arrive twice`, 'send it again')
}

const MAX_SUBJECT_LENGTH = 60

const formatName = ({ to_address: to, subject }: Email): string =>
  `"${truncate(toPrintable(subject), MAX_SUBJECT_LENGTH)}" to ${toPrintable(to)}`

const formatIfStopped = ({ isServed }: CommandApi): string =>
  isServed ? '' : ' No service is running, so nothing is sent until one starts.'
