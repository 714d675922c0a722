/**
 * @module `tassis operations`: shows batches, imports and broadcasts of all accounts. The operator can pause, resume
 * and cancel a broadcast of any account.
 */

import type { Command } from 'commander'
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { toOperationWire } from '#features/core/operations/model.ts'
import { getOperation } from '#features/core/operations/operations.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { type ControlVerb, controlBroadcast } from '#features/sending/broadcasts/control.ts'
import { countBroadcastEmails } from '#features/sending/broadcasts/states.ts'
import { followBroadcast } from '#features/sending/newsletters/states.ts'
import { statusCode } from '#features/sending/queue/status.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { truncate } from '#platform/text.ts'
import { findAccountId } from '../find-account.ts'
import { defineAdminCommand } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import {
  type AccountOption,
  addCommand,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
  withJson,
  withLimit,
} from './options.ts'
import { formatFields, formatList, formatUtc, type List, printResult, toList } from './output.ts'

interface OperationKey {
  readonly uuid: Uint8Array
  readonly accountId: number
}

const sql = prepareStatements((db) => ({
  listName: db.prepare<{ name: string }, [Uint8Array]>('SELECT name FROM contact_lists WHERE uuid = ?'),
  newest: db.prepare<OperationKey, [number | null, number, number]>(
    `SELECT uuid, account_id AS accountId FROM operations WHERE account_id = coalesce(?1, account_id)
     AND (?2 = 0 OR status IN ('pending', 'processing')) ORDER BY id DESC LIMIT ?3`,
  ),
  count: db.prepare<{ n: number }, [number | null, number]>(
    `SELECT COUNT(*) AS n FROM operations WHERE account_id = coalesce(?1, account_id)
     AND (?2 = 0 OR status IN ('pending', 'processing'))`,
  ),
  // Reads only the index `emails_of_operation`.
  failed: db.prepare<{ n: number }, [number, number]>(
    'SELECT COUNT(*) AS n FROM emails WHERE operation_id = ? AND status = ?',
  ),
  owner: db.prepare<{ accountId: number }, [Uint8Array]>(
    'SELECT account_id AS accountId FROM operations WHERE uuid = ?',
  ),
}))

/** @param isCountingEmails whether to count a broadcast's emails; this reads the index entry of each */
function toOperationView(app: App, { uuid, accountId }: OperationKey, isCountingEmails = false) {
  const owner = getAccount(app.config, app.db, accountId)
  const found = getOperation(app.db, accountId, formatUuid(uuid))
  const emails = isCountingEmails ? countBroadcastEmails(app.db, accountId, found.id) : undefined
  const wire = toOperationWire(found, formatUuid(owner.uuid), emails)
  const { contact_list_id, list_id } = (wire.metadata ?? {}) as OperationDetails
  const listUuid = parseUuid(contact_list_id ?? list_id ?? '')
  return {
    account: owner.name,
    // Of the contact list of a broadcast or import; null for other operations.
    list_name: listUuid ? (sql(app.db).listName.get(listUuid)?.name ?? null) : null,
    failed_emails: sql(app.db).failed.get(found.id, statusCode('failed'))?.n ?? 0,
    ...wire,
  }
}

type OperationView = ReturnType<typeof toOperationView>

/** Finds an operation of any account; throws 404 for an unknown id. */
function findOperationKey(app: App, id: string): OperationKey {
  const uuid = parseUuid(id)
  const owner = uuid && sql(app.db).owner.get(uuid)
  if (!owner) throw notFound('operation_not_found', 'Operation not found; `tassis operations` lists the newest.')
  return { uuid, accountId: owner.accountId }
}

interface ListInput extends AccountOption {
  readonly open: boolean
  readonly limit: number
}

const list = defineAdminCommand('operations.list', ({ opened: { app } }, { account, open, limit }: ListInput) => {
  const only = findAccountId(app, account) ?? null
  const { count, newest } = sql(app.db)
  const shown = newest.all(only, open ? 1 : 0, limit).map((found) => toOperationView(app, found))
  return { ...toList(shown, count.get(only, open ? 1 : 0)?.n ?? 0), under_way: count.get(only, 1)?.n ?? 0 }
})

interface IdInput {
  readonly id: string
}

const show = defineAdminCommand('operations.show', ({ opened: { app } }, { id }: IdInput) =>
  toOperationView(app, findOperationKey(app, id), true),
)

interface ControlInput extends IdInput {
  readonly verb: ControlVerb
}

const control = defineAdminCommand(
  'operations.control',
  async ({ opened: { app }, delivery }, { id, verb }: ControlInput) => {
    const found = findOperationKey(app, id)
    const actor = toOperatorActor(getAccount(app.config, app.db, found.accountId))
    await controlBroadcast(app, actor, id, verb, followBroadcast)
    return { ...toOperationView(app, found, true), is_service_running: delivery !== undefined }
  },
)

export const bulkAdminCommands = [list, show, control]

const VERB_DESCRIPTIONS: Readonly<Record<ControlVerb, string>> = {
  pause: 'pause a broadcast; attempts in flight finish',
  resume: 'resume a paused broadcast where it stopped',
  cancel: 'cancel a broadcast permanently; emails that were not attempted are not sent',
}

export function addBulkCommands(program: Command): void {
  const operations = program
    .command('operations')
    .description('show the progress of batches, imports and broadcasts; pause, resume or cancel a broadcast')

  withLimit(
    withJson(
      withAccount(
        operations.command('list', { isDefault: true }).description('list the newest operations of all accounts'),
        ONLY_ACCOUNT_DESCRIPTION,
      ),
    ),
    'operations',
    20,
  )
    .option('--open', 'only operations in progress')
    .action(async (options: JsonOption & AccountOption & { limit: number; open?: boolean }) => {
      const { account, limit, open = false } = options
      const found = await runAdminCommand(list, { limit, open, account })
      printResult(options, found, (value) => formatOperations(value, open))
    })

  addCommand(operations, 'show', 'show an operation and the status of its emails')
    .argument('<id>', 'operation ID, as shown by `tassis operations`')
    .action(async (id: string, options: JsonOption) => {
      printResult(options, await runAdminCommand(show, { id }), formatOperation)
    })

  for (const verb of ['pause', 'resume', 'cancel'] as const) {
    addCommand(operations, verb, VERB_DESCRIPTIONS[verb])
      .argument('<id>', 'operation ID, as shown by `tassis operations`')
      .action(async (id: string, options: JsonOption) => {
        const done = await runAdminCommand(control, { id, verb })
        printResult(options, done, (value) => [formatOperation(value), ...formatAdvice(value)].join('\n'))
      })
  }
}

/** The metadata of a broadcast or import; other operations have none. */
interface OperationDetails {
  readonly state?: string | undefined
  readonly subject?: string | undefined
  readonly contact_list_id?: string | undefined
  /** Set for an import. */
  readonly list_id?: string | undefined
  readonly begins_at?: string | undefined
  readonly emails?: Readonly<Record<string, number>> | undefined
}

const readDetails = ({ metadata }: OperationView): OperationDetails => (metadata ?? {}) as OperationDetails

/** Returns the state of a broadcast, which is more precise than the status of its operation. */
const getState = (shown: OperationView): string => readDetails(shown).state ?? shown.status

const isBroadcast = (shown: OperationView): boolean => readDetails(shown).state !== undefined

function formatProgress(shown: OperationView): string {
  const { total_items: total, completed_items: completed, failed_items: failed } = shown
  const [completedLabel, failedLabel] = isBroadcast(shown) ? ['enqueued', 'skipped'] : ['done', 'failed']
  const parts = [
    `${completed} of ${total} ${completedLabel}`,
    ...(failed > 0 ? [`${failed} ${failedLabel}`] : []),
    ...(isBroadcast(shown) && shown.failed_emails > 0 ? [`${shown.failed_emails} failed`] : []),
  ]
  return parts.join(', ')
}

const MAX_CELL_LENGTH = 60
const MAX_NAME_LENGTH = 30

interface OperationList extends Required<List<OperationView>> {
  readonly under_way: number
}

function formatOperations(list: OperationList, isOpenOnly: boolean): string {
  const { data, under_way: inProgress } = list
  return [
    formatList(
      list,
      isOpenOnly ? 'No operation in progress.' : 'There is no operation yet.',
      ['ID', 'ACCOUNT', 'TYPE', 'LIST', 'SUBJECT', 'STATE', 'PROGRESS', 'SINCE', 'WHY'],
      (shown) => [
        shown.id,
        shown.account,
        shown.operation_type,
        truncate(shown.list_name ?? '', MAX_NAME_LENGTH),
        truncate(readDetails(shown).subject ?? '', MAX_NAME_LENGTH),
        getState(shown),
        formatProgress(shown),
        formatUtc(shown.created_at),
        truncate(shown.error_summary?.message ?? '', MAX_CELL_LENGTH),
      ],
    ),
    ...(data.length > 0 && !isOpenOnly && inProgress > 0
      ? [`${inProgress} in progress (--open shows only these).`]
      : []),
  ].join('\n')
}

function formatOperation(shown: OperationView): string {
  const { subject, state, begins_at: beginsAt, emails } = readDetails(shown)
  const isScheduled = beginsAt !== undefined && (state === 'waiting' || beginsAt > shown.created_at)
  return formatFields([
    ['Operation', shown.id],
    ['Account', `${shown.account} (${shown.account_id})`],
    ['Type', shown.operation_type],
    ['List', shown.list_name],
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

function formatAdvice(shown: OperationView & { readonly is_service_running: boolean }): string[] {
  const state = getState(shown)
  const isUnfinished = state === 'cancelling' || state === 'waiting' || state === 'sending'
  return isUnfinished && !shown.is_service_running
    ? ['No service is running; the broadcast continues when one starts.']
    : []
}
