/**
 * @module `tassis operations`: shows batches, imports and broadcasts of all accounts. The operator can pause, resume
 * and cancel a broadcast of any account.
 */
import type { Operation } from '#client/api.ts'
import type { OperatorOperation } from '#client/operator-api.ts'
import { truncate } from '#platform/text.ts'
import { findOne } from './api.ts'
import type { Command, ListContext } from './command.ts'
import { type Columns, formatFields, formatUtc, printResult } from './output.ts'

const VERB_DESCRIPTIONS = {
  pause: 'pause a broadcast; attempts in flight finish',
  resume: 'resume a paused broadcast where it stopped',
  cancel: 'cancel a broadcast permanently; emails that were not attempted are not sent',
} as const

const ID_ARGUMENT = 'operation ID, as shown by `tassis operations`'
const MAX_CELL_LENGTH = 60
const MAX_NAME_LENGTH = 30

const OPERATION_COLUMNS: Columns<OperatorOperation> = {
  ID: ({ id }) => id,
  ACCOUNT: ({ account }) => account,
  TYPE: ({ operation_type: type }) => type,
  LIST: ({ list_name: name }) => truncate(name ?? '', MAX_NAME_LENGTH),
  SUBJECT: (row) => truncate(readDetails(row).subject ?? '', MAX_NAME_LENGTH),
  STATE: (row) => getState(row),
  PROGRESS: (row) => formatProgress(row, row.failed_emails),
  SINCE: ({ created_at: at }) => formatUtc(at),
  WHY: ({ error_summary: error }) => truncate(error?.message ?? '', MAX_CELL_LENGTH),
}

export function addOperationCommands(program: Command): void {
  const operations = program
    .command('operations')
    .description('show the progress of batches, imports and broadcasts; pause, resume or cancel a broadcast')

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

  operations
    .add('show', 'show an operation and the status of its emails')
    .argument('<id>', ID_ARGUMENT)
    .run(async ({ api, options }, id) => {
      const found = await findOne(api, 'operation', id)
      const shown = await found.api.operations.get(found.id)
      printResult(options, shown, ({ data }) => formatOperation(data, found.account))
    })

  for (const verb of ['pause', 'resume', 'cancel'] as const) {
    operations
      .add(verb, VERB_DESCRIPTIONS[verb])
      .argument('<id>', ID_ARGUMENT)
      .run(async ({ api, options }, id) => {
        const found = await findOne(api, 'operation', id)
        const done = await found.api.operations[verb](found.id)
        printResult(options, done, ({ data }) =>
          [
            formatOperation(data, found.account),
            ...(api.isServed ? [] : ['No service is running; the broadcast continues when one starts.']),
          ].join('\n'),
        )
      })
  }
}

/** The metadata of a broadcast or import; other operations have none. */
interface OperationDetails {
  readonly state?: string | undefined
  readonly subject?: string | undefined
  readonly begins_at?: string | undefined
  readonly emails?: Readonly<Record<string, number>> | undefined
}

const readDetails = ({ metadata }: Operation): OperationDetails => (metadata ?? {}) as OperationDetails

/** Returns the state of a broadcast, which is more precise than the status of its operation. */
const getState = (shown: Operation): string => readDetails(shown).state ?? shown.status

function formatProgress(shown: Operation, failedEmails = 0): string {
  const { total_items: total, completed_items: completed, failed_items: failed } = shown
  const isBroadcast = readDetails(shown).state !== undefined
  const [completedLabel, failedLabel] = isBroadcast ? ['enqueued', 'skipped'] : ['done', 'failed']
  const parts = [
    `${completed} of ${total} ${completedLabel}`,
    ...(failed > 0 ? [`${failed} ${failedLabel}`] : []),
    ...(isBroadcast && failedEmails > 0 ? [`${failedEmails} failed`] : []),
  ]
  return parts.join(', ')
}

function formatOperation(shown: Operation, account: string): string {
  const { subject, state, begins_at: beginsAt, emails } = readDetails(shown)
  const isScheduled = beginsAt !== undefined && (state === 'waiting' || beginsAt > shown.created_at)
  return formatFields([
    ['Operation', shown.id],
    ['Account', `${account} (${shown.account_id})`],
    ['Type', shown.operation_type],
    ['Subject', subject ?? null],
    ['State', getState(shown)],
    ['Since', formatUtc(shown.created_at)],
    ['Begins', isScheduled ? formatUtc(beginsAt) : null],
    ['Progress', formatProgress(shown)],
    ['Emails', emails ? formatEmails(emails) : null],
    ['Why', shown.error_summary?.message ?? null],
    ['Ended', shown.completed_at && formatUtc(shown.completed_at)],
  ])
}

function formatEmails(emails: Readonly<Record<string, number>>): string {
  const counts = Object.entries(emails).flatMap(([status, count]) => (count > 0 ? [`${count} ${status}`] : []))
  return counts.join(', ') || 'none yet'
}
