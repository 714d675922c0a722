/** @module `tassis dead-letters`: lists the dead letters of all accounts, and sends them again. */

import { Option } from 'commander'
import { TassisError } from '#client/client.ts'
import type { OperatorDeadLetter } from '#client/operator-api.ts'
import { DEAD_LETTER_REASONS, type DeadLetterReason } from '#features/sending/dead-letters/dead-letters.ts'
import { type CommandApi, findAccountFilter, findOne, readRows } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { CommandError, UsageError } from './errors.ts'
import { type AccountOption, confirmAction } from './options.ts'
import { fields, formatCount } from './output.ts'

interface SelectOptions extends AccountOption {
  readonly reason?: DeadLetterReason | undefined
  readonly email?: string | undefined
}

type RetryOptions = SelectOptions & { readonly all?: boolean; readonly yes?: boolean }

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

const LETTER_COLUMNS = fields<OperatorDeadLetter>()(
  'id failed_at failure_reason to_address subject account email_id last_error',
)

export function addDeadLetterCommands(program: Command): void {
  const letters = program
    .command('dead-letters')
    .description('list recipients whose delivery expired, failed or is uncertain, and try them again')

  withSelection(letters.add('list', 'list the newest dead letters of all accounts'))
    .limit('dead letters', 30)
    .list(
      async ({ api, options, query }: ListContext<SelectOptions & { readonly limit: number }>) => {
        const selection = { ...query, ...(await readSelection(api, options)) }
        return readRows(api.operator.listDeadLetters(selection), options.limit)
      },
      'There is no dead letter.',
      LETTER_COLUMNS,
    )

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
        const letters =
          id === undefined ? await selectLetters(api, options) : [(await api.operator.getDeadLetter(id)).data]
        const isUncertain = letters.some(({ failure_reason: reason }) => reason === 'uncertain')
        const facts = `${formatCount(letters.length, 'dead letter')}${isUncertain ? ', which may arrive twice' : ''}`
        if (id === undefined || isUncertain) confirmAction(options, facts, 'send them again')
        const data: Retried[] = []
        for (const letter of letters) data.push(await retryLetter(api, letter))
        if (data.some(({ error }) => error !== null)) process.exitCode = 1
        return { data }
      },
      ({ data }) => {
        const failed = data.flatMap(({ id, error }) => (error ? [`${id} was not: ${error.message}`] : []))
        const done = `${formatCount(data.length - failed.length, 'dead letter')} put back into the queue, due now.`
        return [done, ...failed].join('\n')
      },
    )
}

interface Retried {
  readonly id: string
  /** Why it was not put back into the queue; null: it was. */
  readonly error: { readonly code: string; readonly message: string } | null
}

/** What is safe to send again: no receiver has it. */
const UNDELIVERED: readonly DeadLetterReason[] = ['expired', 'failed']

async function selectLetters(api: CommandApi, options: RetryOptions): Promise<OperatorDeadLetter[]> {
  const { reason, ...selection } = await readSelection(api, options)
  const letters: OperatorDeadLetter[] = []
  for (const only of reason === undefined ? UNDELIVERED : [reason])
    for await (const letter of api.operator.listDeadLetters({ ...selection, reason: only, per_page: 100 }))
      letters.push(letter)
  if (letters.length > 0) return letters
  throw new CommandError(
    'No dead letter matches (uncertain ones only with --reason uncertain); `tassis dead-letters list` shows all.',
    'dead_letter_not_found',
  )
}

async function retryLetter(api: CommandApi, { id, account_id: account }: OperatorDeadLetter): Promise<Retried> {
  try {
    await api.as(account).deadLetters.retry(id)
    return { id, error: null }
  } catch (error) {
    if (!(error instanceof TassisError) || error.status < 400 || error.status >= 500) throw error
    return { id, error: { code: error.code, message: error.message } }
  }
}
