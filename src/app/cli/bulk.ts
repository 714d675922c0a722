/**
 * @module `tassis operations`: work that goes on after its answer, of all accounts: batches, imports, broadcasts. A broadcast can be stopped and let go on
 * here, whoever began it.
 */
import type { Command } from 'commander'
import { accountOfActor } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { type OperationRecord, operationWire } from '#features/core/operations/model.ts'
import { getOperation } from '#features/core/operations/operations.ts'
import { operatorFor } from '#features/people/sub-accounts/create-account.ts'
import { type ControlVerb, controlBroadcast } from '#features/sending/broadcasts/control.ts'
import { emailsOfBroadcast } from '#features/sending/broadcasts/progress.ts'
import { statusCode } from '#features/sending/emails/status.ts'
import { noteBroadcast } from '#features/sending/newsletters/states.ts'
import { prepared } from '#platform/db/open.ts'
import { notFound } from '#platform/errors.ts'
import { formatUuid, parseUuid } from '#platform/ids.ts'
import { loadConfig } from '../settings.ts'
import { operatorOf } from './accounts.ts'
import { withData } from './call.ts'
import { listName } from './lists.ts'
import { operation } from './operation.ts'
import { type AccountOption, type JsonOption, ONLY_ACCOUNT, withAccount, withJson, withLimit } from './options.ts'
import { printable, report, shortened, table, utc } from './output.ts'

interface ShownOperation extends OperationRecord {
  /** Name of the account. */
  readonly account: string
  /** Name of the list that a broadcast is sent to, or an import is for; null: it is about none. */
  readonly list_name: string | null
  /** Emails of it that failed. */
  readonly failed_emails: number
}

interface Found {
  readonly uuid: Uint8Array
  readonly accountId: number
}

const sql = prepared((db) => ({
  newest: db.prepare<Found, [number | null, number, number]>(
    `SELECT uuid, account_id AS accountId FROM operations WHERE account_id = coalesce(?1, account_id)
     AND (?2 = 0 OR status IN ('pending', 'processing')) ORDER BY id DESC LIMIT ?3`,
  ),
  count: db.prepare<{ n: number }, [number | null, number]>(
    `SELECT COUNT(*) AS n FROM operations WHERE account_id = coalesce(?1, account_id)
     AND (?2 = 0 OR status IN ('pending', 'processing'))`,
  ),
  // Of the index `emails_of_operation` alone.
  failed: db.prepare<{ n: number }, [number, number]>(
    'SELECT COUNT(*) AS n FROM emails WHERE operation_id = ? AND status = ?',
  ),
  owner: db.prepare<{ accountId: number }, [Uint8Array]>(
    'SELECT account_id AS accountId FROM operations WHERE uuid = ?',
  ),
}))

/** @param counts whether the emails of a broadcast are counted, which reads an index of all of them */
function shownOperation(app: App, { uuid, accountId }: Found, counts = false): ShownOperation {
  const owner = accountOfActor(app.config, app.db, accountId)
  const found = getOperation(app.db, accountId, formatUuid(uuid))
  const emails = counts ? emailsOfBroadcast(app.db, accountId, found.id) : undefined
  const wire = operationWire(found, formatUuid(owner.uuid), emails)
  const { contact_list_id, list_id } = (wire.metadata ?? {}) as Details
  return {
    account: owner.name,
    list_name: listName(app.db, parseUuid(contact_list_id ?? list_id ?? '')),
    failed_emails: sql(app.db).failed.get(found.id, statusCode('failed'))?.n ?? 0,
    ...wire,
  }
}

/** The operation of any account; throws 404 when there is none with this id. */
function ownedOperation(app: App, id: string): Found {
  const uuid = parseUuid(id)
  const owner = uuid && sql(app.db).owner.get(uuid)
  if (!owner)
    throw notFound('operation_not_found', 'There is no operation with this id; `tassis operations` shows the newest.')
  return { uuid, accountId: owner.accountId }
}

interface ListInput extends AccountOption {
  readonly open: boolean
  readonly limit: number
}

const list = operation('operations.list', ({ opened: { app } }, { account, open, limit }: ListInput) => {
  const only = account === undefined ? null : operatorOf(app, account).accountId
  return {
    total: sql(app.db).count.get(only, open ? 1 : 0)?.n ?? 0,
    under_way: sql(app.db).count.get(only, 1)?.n ?? 0,
    operations: sql(app.db)
      .newest.all(only, open ? 1 : 0, limit)
      .map((found) => shownOperation(app, found)),
  }
})

interface IdInput {
  readonly id: string
}

const show = operation('operations.show', ({ opened: { app } }, { id }: IdInput) =>
  shownOperation(app, ownedOperation(app, id), true),
)

interface ControlInput extends IdInput {
  readonly verb: ControlVerb
}

const control = operation('operations.control', async ({ opened: { app }, delivery }, { id, verb }: ControlInput) => {
  const found = ownedOperation(app, id)
  const actor = operatorFor(accountOfActor(app.config, app.db, found.accountId))
  await controlBroadcast(app, actor, id, verb, noteBroadcast)
  return { ...shownOperation(app, found, true), is_service_running: delivery !== undefined }
})

export const bulkOperations = [list, show, control]

const MEANING: Readonly<Record<ControlVerb, string>> = {
  pause: 'stop a broadcast until it is resumed; what is being tried ends as it ends',
  resume: 'let a paused broadcast go on where it stopped',
  cancel: 'stop a broadcast for good; what was not tried is not sent',
}

export function addBulkCommands(program: Command): void {
  const operations = program
    .command('operations')
    .description('batches, imports and broadcasts: how far they are; stop a broadcast or let it go on')

  withLimit(
    withJson(
      withAccount(
        operations.command('list', { isDefault: true }).description('show the newest of all accounts'),
        ONLY_ACCOUNT,
      ),
    ),
    'most that are shown',
    20,
  )
    .option('--open', 'only those that are not over')
    .action(async (options: JsonOption & AccountOption & { limit: number; open?: boolean }) => {
      const { account, limit, open = false } = options
      const input = { limit, open, ...(account !== undefined && { account }) }
      const found = await withData(loadConfig().config, (call) => call(list, input))
      report(options, found, (value) => listText(value, open))
    })

  withJson(operations.command('show').description('show one, with what became of its emails'))
    .argument('<id>', 'as `tassis operations` shows it')
    .action(async (id: string, options: JsonOption) => {
      const found = await withData(loadConfig().config, (call) => call(show, { id }))
      report(options, found, operationText)
    })

  for (const verb of ['pause', 'resume', 'cancel'] as const) {
    withJson(operations.command(verb).description(MEANING[verb]))
      .argument('<id>', 'as `tassis operations` shows it')
      .action(async (id: string, options: JsonOption) => {
        const done = await withData(loadConfig().config, (call) => call(control, { id, verb }))
        report(options, done, (value) => [operationText(value), ...adviceAfter(value)].join('\n'))
      })
  }
}

/** What the metadata of a broadcast say; of other work there is no more than its record. */
interface Details {
  readonly state?: string
  readonly subject?: string
  readonly contact_list_id?: string
  /** Of an import. */
  readonly list_id?: string
  readonly begins_at?: string
  readonly emails?: Readonly<Record<string, number>>
}

const detailsOf = ({ metadata }: ShownOperation): Details => (metadata ?? {}) as Details

/** That of the broadcast, which says more. */
const stateText = (shown: ShownOperation): string => detailsOf(shown).state ?? shown.status

const isBroadcast = (shown: ShownOperation): boolean => detailsOf(shown).state !== undefined

function progressText(shown: ShownOperation): string {
  const { total_items: total, completed_items: completed, failed_items: failed } = shown
  const [done, not] = isBroadcast(shown) ? ['handed to delivery', 'left out'] : ['done', 'failed']
  const parts = [
    `${completed} of ${total} ${done}`,
    ...(failed > 0 ? [`${failed} ${not}`] : []),
    ...(isBroadcast(shown) && shown.failed_emails > 0 ? [`${shown.failed_emails} failed`] : []),
  ]
  return parts.join(', ')
}

const LONGEST_CELL = 60
const LONGEST_NAME = 30

interface Listed {
  readonly operations: readonly ShownOperation[]
  readonly total: number
  readonly under_way: number
}

function listText({ operations, total, under_way: underWay }: Listed, onlyOpen: boolean): string {
  if (operations.length === 0) return onlyOpen ? 'Nothing is under way.' : 'There is no operation yet.'
  return [
    table(
      ['ID', 'ACCOUNT', 'TYPE', 'LIST', 'SUBJECT', 'STATE', 'PROGRESS', 'SINCE', 'WHY'],
      operations.map((shown) => [
        shown.id,
        shown.account,
        shown.operation_type,
        shortened(shown.list_name ?? '', LONGEST_NAME),
        shortened(detailsOf(shown).subject ?? '', LONGEST_NAME),
        stateText(shown),
        progressText(shown),
        utc(shown.created_at),
        shortened(shown.error_summary?.message ?? '', LONGEST_CELL),
      ]),
    ),
    ...(total > operations.length ? [`… and ${total - operations.length} more (--limit)`] : []),
    ...(!onlyOpen && underWay > 0 ? [`${underWay} under way (--open shows no others).`] : []),
  ].join('\n')
}

const operationText = (shown: ShownOperation): string =>
  (
    [
      ['Operation', shown.id],
      ['Account', `${shown.account} (${shown.account_id})`],
      ['Type', shown.operation_type],
      ...(shown.list_name === null ? [] : [['List', shown.list_name] as const]),
      ...subjectText(shown),
      ['State', stateText(shown)],
      ['Since', utc(shown.created_at)],
      ...beginsText(shown),
      ['Progress', progressText(shown)],
      ...emailsText(shown),
      ...(shown.error_summary === null ? [] : [['Why', shown.error_summary.message] as const]),
      ...(shown.completed_at === null ? [] : [['Ended', utc(shown.completed_at)] as const]),
    ] as const
  )
    .map(([name, value]) => `${`${name}:`.padEnd(10)} ${printable(value)}`)
    .join('\n')

function subjectText(shown: ShownOperation): (readonly [string, string])[] {
  const { subject } = detailsOf(shown)
  return subject === undefined ? [] : [['Subject', subject]]
}

/** Only of what waits for its time. */
function beginsText(shown: ShownOperation): (readonly [string, string])[] {
  const { state, begins_at } = detailsOf(shown)
  return begins_at !== undefined && (state === 'waiting' || begins_at > shown.created_at)
    ? [['Begins', utc(begins_at)]]
    : []
}

function emailsText(shown: ShownOperation): (readonly [string, string])[] {
  const { emails } = detailsOf(shown)
  if (!emails) return []
  const some = Object.entries(emails).filter(([, count]) => count > 0)
  return [['Emails', some.length === 0 ? 'none yet' : some.map(([status, count]) => `${count} ${status}`).join(', ')]]
}

function adviceAfter(shown: ShownOperation & { readonly is_service_running: boolean }): string[] {
  const state = stateText(shown)
  const isToGoOn = state === 'cancelling' || state === 'waiting' || state === 'sending'
  return isToGoOn && !shown.is_service_running ? ['No service runs here; it goes on when one is started.'] : []
}
