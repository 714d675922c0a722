/** @module `tassis dead-letters`: lists the dead letters of all accounts, and sends them again. */

import { type Command, Option } from 'commander'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { type DeadLetterRecord, deadLetterWire } from '#features/sending/dead-letters/model.ts'
import {
  type DeadLetter,
  findDeadLetterOwner,
  getDeadLetter,
  listDeadLettersOfEmail,
  selectDeadLetters,
} from '#features/sending/dead-letters/read.ts'
import { retryDeadLetter } from '#features/sending/dead-letters/retry.ts'
import { DEAD_LETTER_REASONS, type DeadLetterReason } from '#features/sending/dead-letters/write.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import { truncate } from '#platform/text.ts'
import { findAccountId } from '../find-account.ts'
import { requireEmail } from '../find-email.ts'
import { loadConfig } from '../settings.ts'
import { CommandError, defineAdminCommand, UsageError } from './admin-command.ts'
import { type Call, runAdminCommand, withData } from './call.ts'
import { confirmAction } from './confirm.ts'
import {
  type AccountOption,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
  withJson,
  withLimit,
} from './options.ts'
import { formatCount, formatList, formatUtc, type List, printResult, toList, toPrintable } from './output.ts'

type LetterView = DeadLetterRecord & { readonly account: string }

interface ListInput extends AccountOption {
  readonly reasons: readonly DeadLetterReason[]
  /** ID of an email, or its beginning. */
  readonly email?: string | undefined
  /** Only letters with a lower id. */
  readonly before?: number | undefined
  readonly limit: number
}

function toLetterView({ config, db }: App, letter: DeadLetter): LetterView {
  const { uuid, name } = getAccount(config, db, letter.accountId)
  return { ...deadLetterWire(letter, formatUuid(uuid)), account: name }
}

const list = defineAdminCommand('dead-letters.list', ({ opened: { app } }, input: ListInput) => {
  const { account, reasons, email, before, limit } = input
  const accountId = findAccountId(app, account)
  if (email === undefined) {
    const { letters, total } = selectDeadLetters(app.db, { accountId, reasons }, { before, limit })
    return toList(
      letters.map((letter) => toLetterView(app, letter)),
      total,
    )
  }
  const found = listDeadLettersOfEmail(app.db, requireEmail(app, email).email.id).filter(({ reason }) =>
    reasons.includes(reason),
  )
  return toList(
    found.slice(0, limit).map((letter) => toLetterView(app, letter)),
    found.length,
  )
})

/** The recipient of a dead letter if it may have the message, else null; an unknown id is not an error here. */
const findUncertain = defineAdminCommand(
  'dead-letters.uncertain',
  ({ opened: { app } }, { id }: { readonly id: string }): string | null => {
    try {
      const { reason, to } = getDeadLetter(app.db, findDeadLetterOwner(app.db, id), id)
      return reason === 'uncertain' ? to : null
    } catch (error) {
      if (error instanceof AppError && error.status === 404) return null
      throw error
    }
  },
)

interface Retried {
  readonly id: string
  /** Why it was not put back into the queue; null: it was. */
  readonly error: { readonly code: string; readonly message: string } | null
}

const retry = defineAdminCommand(
  'dead-letters.retry',
  async ({ opened: { app } }, { ids }: { readonly ids: readonly string[] }): Promise<Retried[]> => {
    const retried: Retried[] = []
    for (const id of ids) retried.push({ id, error: await retryOne(app, id) })
    return retried
  },
)

async function retryOne(app: App, id: string): Promise<Retried['error']> {
  try {
    await retryDeadLetter(app, toOperatorActor(getAccount(app.config, app.db, findDeadLetterOwner(app.db, id))), id)
    return null
  } catch (error) {
    if (error instanceof AppError && error.status < 500) return { code: error.code, message: error.message }
    throw error
  }
}

export const deadLetterAdminCommands = [list, findUncertain, retry]

interface SelectOptions extends JsonOption, AccountOption {
  readonly reason?: DeadLetterReason | undefined
  readonly email?: string | undefined
}

const withSelection = (command: Command): Command =>
  withJson(withAccount(command, ONLY_ACCOUNT_DESCRIPTION))
    .addOption(new Option('--reason <reason>', 'only with this reason').choices(DEAD_LETTER_REASONS))
    .option('--email <id>', 'only of this email: its ID, or the beginning as shown by `tassis emails list`')

const toSelection = ({ account, email, reason }: SelectOptions, fallback: readonly DeadLetterReason[]) => ({
  reasons: reason === undefined ? fallback : [reason],
  account,
  email,
})

export function addDeadLetterCommands(program: Command): void {
  const letters = program
    .command('dead-letters')
    .description('list recipients whose delivery expired, failed or is uncertain, and try them again')

  withLimit(
    withSelection(letters.command('list').description('list the newest dead letters of all accounts')),
    'dead letters',
    30,
  ).action(async (options: SelectOptions & { readonly limit: number }) => {
    const input = { ...toSelection(options, DEAD_LETTER_REASONS), limit: options.limit }
    printResult(options, await runAdminCommand(list, input), formatLetters)
  })

  withSelection(
    letters
      .command('retry')
      .description('put dead letters back into the queue, due now; exit code 1 if one cannot be sent again'),
  )
    .argument('[id]', 'ID of a dead letter, as shown by `tassis dead-letters list`')
    .option('--all', 'all that the other options select; without --reason, none that are uncertain')
    .option('--yes', 'do not ask')
    .action(async (id: string | undefined, options: SelectOptions & { all?: boolean; yes?: boolean }) => {
      const { all = false, email } = options
      if (Number(id !== undefined) + Number(all || email !== undefined) !== 1)
        throw new UsageError('Give the ID of a dead letter, --email with the ID of an email, or --all.')
      const retried = await withData(loadConfig().config, (call) =>
        id === undefined ? retrySelected(call, options) : retryNamed(call, id, options),
      )
      const [{ error } = { error: null }] = retried
      if (id !== undefined && error) throw new CommandError(error.message, error.code)
      printResult(options, toList(retried), ({ data }) => formatRetried(data))
      if (retried.some((letter) => letter.error !== null)) process.exitCode = 1
    })
}

/** What is safe to send again: no receiver has it. */
const UNDELIVERED: readonly DeadLetterReason[] = ['expired', 'failed']
const BATCH_SIZE = 100

/** Asks first if the receiver may have the message. */
async function retryNamed(call: Call, id: string, options: { readonly yes?: boolean }): Promise<Retried[]> {
  const address = await call(findUncertain, { id })
  if (address !== null)
    confirmAction(options, `${toPrintable(address)} may have got the message, so it may arrive twice`, 'send it again')
  return call(retry, { ids: [id] })
}

/** Counts and asks, then retries each letter once. */
async function retrySelected(call: Call, options: SelectOptions & { readonly yes?: boolean }): Promise<Retried[]> {
  const selection = toSelection(options, UNDELIVERED)
  const { total } = await call(list, { ...selection, limit: 1 })
  if (total === 0)
    throw new CommandError(
      `No dead letter matches${options.reason === undefined ? ' (uncertain ones only with --reason uncertain)' : ''}; \`tassis dead-letters list\` shows all.`,
      'dead_letter_not_found',
    )
  const twice = options.reason === 'uncertain' ? ', which may arrive twice' : ''
  confirmAction(
    options,
    `${formatCount(total, 'dead letter')} ${total === 1 ? 'matches' : 'match'}${twice}`,
    'send them again',
  )
  const retried: Retried[] = []
  for (let before: number | undefined; ; ) {
    const page: Awaited<ReturnType<typeof list.run>> = await call(list, {
      ...selection,
      limit: BATCH_SIZE,
      before,
    })
    retried.push(...(await call(retry, { ids: page.data.map(({ id }) => id) })))
    before = Number(page.data.at(-1)?.id)
    if (page.data.length < BATCH_SIZE) return retried
  }
}

const MAX_CELL_LENGTH = 40
const MAX_ERROR_LENGTH = 80

const formatLetters = (list: List<LetterView>): string =>
  [
    formatList(
      list,
      'There is no dead letter.',
      ['ID', 'SINCE', 'REASON', 'TO', 'SUBJECT', 'ACCOUNT', 'EMAIL', 'LAST ERROR'],
      (row) => [
        row.id,
        formatUtc(row.failed_at),
        row.failure_reason,
        truncate(row.to_address, MAX_CELL_LENGTH),
        truncate(row.subject, MAX_CELL_LENGTH),
        truncate(row.account, MAX_CELL_LENGTH),
        row.email_id,
        truncate(row.last_error, MAX_ERROR_LENGTH),
      ],
    ),
    ...(list.data.length === 0
      ? []
      : [
          '',
          '`tassis emails explain EMAIL` says what happened. `tassis dead-letters retry ID` tries one again; an uncertain one may arrive twice.',
        ]),
  ].join('\n')

function formatRetried(retried: readonly Retried[]): string {
  const failed = retried.filter(({ error }) => error !== null)
  return [
    `${formatCount(retried.length - failed.length, 'dead letter')} put back into the queue, due now.`,
    ...failed.map(({ id, error }) => `${id} was not: ${toPrintable(error?.message ?? '')}`),
  ].join('\n')
}
