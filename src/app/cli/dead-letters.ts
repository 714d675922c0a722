/** @module `tassis dead-letters`: lists the dead letters of all accounts, and sends them again. */

import { Option } from 'commander'
import { TassisError } from '#client/client.ts'
import type { OperatorDeadLetter } from '#client/operator-api.ts'
import { DEAD_LETTER_REASONS, type DeadLetterReason } from '#features/sending/dead-letters/dead-letters.ts'
import { truncate } from '#platform/text.ts'
import { type CommandApi, findAccountFilter, findOne, pageSize, readRows } from './api.ts'
import type { Command, Context } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { confirmAction } from './input.ts'
import type { AccountOption } from './options.ts'
import { type Columns, formatCount, formatUtc, printPage, toPrintable } from './output.ts'

interface SelectOptions extends AccountOption {
  readonly reason?: DeadLetterReason | undefined
  readonly email?: string | undefined
}

interface RetryOptions extends SelectOptions {
  readonly all?: boolean
  readonly yes?: boolean
}

const withSelection = (command: Command): Command =>
  command
    .accountFilter()
    .addOption(new Option('--reason <reason>', 'only with this reason').choices(DEAD_LETTER_REASONS))
    .option('--email <id>', 'only of this email: its ID, or the beginning as shown by `tassis emails list`')

const readSelection = async (api: CommandApi, options: SelectOptions) => ({
  reason: options.reason,
  account_id: await findAccountFilter(api, options),
  email_id: options.email === undefined ? undefined : (await findOne(api, 'email', options.email)).id,
})

const MAX_CELL_LENGTH = 40
const MAX_ERROR_LENGTH = 80

const LETTER_COLUMNS: Columns<OperatorDeadLetter> = {
  ID: ({ id }) => id,
  SINCE: ({ failed_at: at }) => formatUtc(at),
  REASON: ({ failure_reason: reason }) => reason,
  TO: ({ to_address: to }) => truncate(to, MAX_CELL_LENGTH),
  SUBJECT: ({ subject }) => truncate(subject, MAX_CELL_LENGTH),
  ACCOUNT: ({ account }) => truncate(account, MAX_CELL_LENGTH),
  EMAIL: ({ email_id: id }) => id,
  'LAST ERROR': ({ last_error: error }) => truncate(error, MAX_ERROR_LENGTH),
}

export function addDeadLetterCommands(program: Command): void {
  const letters = program
    .command('dead-letters')
    .description('list recipients whose delivery expired, failed or is uncertain, and try them again')

  withSelection(letters.add('list', 'list the newest dead letters of all accounts'))
    .limit('dead letters', 30)
    .run(async ({ api, options }: Context<SelectOptions & { readonly limit: number }>) => {
      const query = { ...(await readSelection(api, options)), per_page: pageSize(options.limit) }
      const found = await readRows(api.operator.listDeadLetters(query), options.limit)
      printPage(options, found, 'There is no dead letter.', LETTER_COLUMNS)
    })

  withSelection(
    letters.add('retry', 'put dead letters back into the queue, due now; exit code 1 if one cannot be sent again'),
  )
    .argument('[id]', 'ID of a dead letter, as shown by `tassis dead-letters list`')
    .option('--all', 'all that the other options select; without --reason, none that are uncertain')
    .option('--yes', 'do not ask')
    .answer(
      async ({ api, options }: Context<RetryOptions>, id?: string) => {
        if (Number(id !== undefined) + Number(options.all || options.email !== undefined) !== 1)
          throw new UsageError('Give the ID of a dead letter, --email with the ID of an email, or --all.')
        const data = id === undefined ? await retrySelected(api, options) : [await retryNamed(api, id, options)]
        if (data.some(({ error }) => error !== null)) process.exitCode = 1
        return { data }
      },
      ({ data }) => formatRetried(data),
    )
}

interface Retried {
  readonly id: string
  /** Why it was not put back into the queue; null: it was. */
  readonly error: { readonly code: string; readonly message: string } | null
}

type LetterKey = Pick<OperatorDeadLetter, 'id' | 'account_id'>

const retryLetter = (api: CommandApi, { id, account_id: account }: LetterKey) => api.as(account).deadLetters.retry(id)

/** Asks first if the receiver may have the message. */
async function retryNamed(api: CommandApi, id: string, options: RetryOptions): Promise<Retried> {
  const { data: letter } = await api.operator.getDeadLetter(id)
  if (letter.failure_reason === 'uncertain')
    confirmAction(
      options,
      `${toPrintable(letter.to_address)} may have got the message, so it may arrive twice`,
      'send it again',
    )
  await retryLetter(api, letter)
  return { id, error: null }
}

/** What is safe to send again: no receiver has it. */
const UNDELIVERED: readonly DeadLetterReason[] = ['expired', 'failed']

/** Counts and asks, then retries each letter once. */
async function retrySelected(api: CommandApi, options: RetryOptions): Promise<Retried[]> {
  const { reason, ...selection } = await readSelection(api, options)
  const lists = (reason === undefined ? UNDELIVERED : [reason]).map((only) =>
    api.operator.listDeadLetters({ ...selection, reason: only, per_page: 100 }),
  )
  let total = 0
  for (const list of lists) total += (await list).pagination.total
  if (total === 0)
    throw new CommandError(
      `No dead letter matches${reason === undefined ? ' (uncertain ones only with --reason uncertain)' : ''}; \`tassis dead-letters list\` shows all.`,
      'dead_letter_not_found',
    )
  const facts = `${formatCount(total, 'dead letter')} ${total === 1 ? 'matches' : 'match'}${reason === 'uncertain' ? ', which may arrive twice' : ''}`
  confirmAction(options, facts, 'send them again')
  const retried: Retried[] = []
  for (const list of lists) for await (const letter of list) retried.push(await tryLetter(api, letter))
  return retried
}

async function tryLetter(api: CommandApi, letter: LetterKey): Promise<Retried> {
  try {
    await retryLetter(api, letter)
    return { id: letter.id, error: null }
  } catch (error) {
    if (!(error instanceof TassisError) || error.status < 400 || error.status >= 500) throw error
    return { id: letter.id, error: { code: error.code, message: error.message } }
  }
}

function formatRetried(retried: readonly Retried[]): string {
  const failed = retried.filter(({ error }) => error !== null)
  return [
    `${formatCount(retried.length - failed.length, 'dead letter')} put back into the queue, due now.`,
    ...failed.map(({ id, error }) => `${id} was not: ${toPrintable(error?.message ?? '')}`),
  ].join('\n')
}
