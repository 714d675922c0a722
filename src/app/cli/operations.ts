/**
 * @module `tassis operations`: shows batches, imports and broadcasts of all accounts. The operator can pause, resume
 * and cancel a broadcast of any account.
 */
import type { Operation } from '#client/api.ts'
import type { OperatorOperation } from '#client/operator-api.ts'
import { findOne } from './api.ts'
import type { Command, Context, ListContext } from './command.ts'
import { type Columns, fields, formatFields } from './output.ts'

const VERB_DESCRIPTIONS = {
  pause: 'pause a broadcast; attempts in flight finish',
  resume: 'resume a paused broadcast where it stopped',
  cancel: 'cancel a broadcast permanently; emails that were not attempted are not sent',
} as const

const OPERATION_COLUMNS: Columns<OperatorOperation> = {
  ...fields<OperatorOperation>()('id account operation_type list_name'),
  SUBJECT: (row) => readDetails(row).subject,
  STATE: (row) => getState(row),
  ...fields<OperatorOperation>()('total_items completed_items failed_items failed_emails created_at'),
  WHY: ({ error_summary: error }) => error?.message,
}

export function addOperationCommands(program: Command): void {
  const operations = program
    .command('operations')
    .description('show the progress of batches, imports and broadcasts; pause, resume or cancel a broadcast')
  /** A command about one operation. */
  const add = (name: string, description: string): Command =>
    operations.add(name, description).argument('<id>', 'operation ID, as shown by `tassis operations`')

  operations
    .add('list', 'list the newest operations of all accounts', { isDefault: true })
    .accountFilter()
    .limit('operations', 20)
    .option('--open', 'only operations in progress')
    .list(
      ({ api, options, query }: ListContext<{ open?: boolean }>) =>
        api.operator.listOperations({ ...query, open: options.open ? 'true' : undefined }),
      'There is no operation to show.',
      OPERATION_COLUMNS,
    )

  add('show', 'show an operation and the status of its emails').answer(async ({ api: all }: Context, id: string) => {
    const { api, id: found } = await findOne(all, 'operation', id)
    return api.operations.get(found)
  }, formatOperation)

  for (const verb of ['pause', 'resume', 'cancel'] as const)
    add(verb, VERB_DESCRIPTIONS[verb]).answer(
      async ({ api: all }: Context, id: string) => {
        const { api, id: found } = await findOne(all, 'operation', id)
        return api.operations[verb](found)
      },
      (done, { api }) =>
        `${formatOperation(done)}${api.isServed ? '' : '\nNo service is running; the broadcast continues when one starts.'}`,
    )
}

/** The metadata of a broadcast or import; other operations have none. */
interface OperationDetails {
  readonly state?: string | undefined
  readonly subject?: string | undefined
}

const readDetails = ({ metadata }: Operation): OperationDetails => (metadata ?? {}) as OperationDetails

/** Returns the state of a broadcast, which is more precise than the status of its operation. */
const getState = (shown: Operation): string => readDetails(shown).state ?? shown.status

const formatOperation = ({ data: { metadata, ...shown } }: { readonly data: Operation }): string =>
  formatFields({ ...shown, ...(metadata as object | null) })
