/**
 * @module `tassis audit`: lists or verifies the audit log of all accounts. `tassis logs`: lists the requests of an
 * account. Both work with and without a running service.
 */
import type { Log } from '#client/api.ts'
import { findAccount } from '#features/core/accounts/accounts.ts'
import { findAccountId } from '#features/core/accounts/find-account.ts'
import { toAuditLogWire } from '#features/core/audit-logs/model.ts'
import { listNewestAuditEntries } from '#features/core/audit-logs/read.ts'
import { verifyAuditLog } from '#features/core/audit-logs/verify.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { systemClock } from '#platform/time/clock.ts'
import type { Command, ListContext } from './command.ts'
import { UsageError } from './errors.ts'
import { type AccountOption, parseInstantOption, TIME_FORMS } from './options.ts'
import { fields, formatFields, formatPage, joinParagraphs } from './output.ts'
import { withSnapshot } from './snapshot.ts'

const HASH_PATTERN = /^[0-9a-f]{64}$/i

function verify(config: Config, expected: string | undefined) {
  const at = isoTime(systemClock.now())
  const found = withSnapshot(config, (db) => verifyAuditLog(db, expected))
  return {
    ok: found.brokenCount === 0 && found.hasExpected !== false,
    at,
    entries: found.entries,
    erased: found.erased,
    // Entries up to this position were deleted by retention; 0 if none.
    removed_up_to: found.removedUpTo,
    head: { id: found.headId, hash: found.headHash },
    expected: expected === undefined ? null : { hash: expected, found: found.hasExpected === true },
    broken_count: found.brokenCount,
    broken: found.broken.map(({ id, uuid, createdAt, reason }) => ({
      position: id,
      id: uuid,
      created_at: isoTimeOrNull(createdAt),
      reason,
    })),
  }
}

type Verified = ReturnType<typeof verify>

const formatVerified = ({ broken, ok, ...found }: Verified): string =>
  joinParagraphs(
    formatFields(found),
    formatPage({ data: broken }, '', fields<Verified['broken'][number]>()('position id created_at reason')),
    ok
      ? 'The log is unchanged. Store the hash elsewhere: `tassis audit verify --expect HASH` later checks that the log still contains it.'
      : 'The log was CHANGED.',
  )

interface ListOptions extends AccountOption {
  readonly action?: string | undefined
  readonly since?: string | undefined
  readonly limit: number
}

function list(config: Config, { account, action, since, limit }: ListOptions) {
  const from = parseInstantOption('--since', since, systemClock.now())
  return withSnapshot(config, (db) => {
    const accountId = findAccountId({ config, db }, account)
    const entries = listNewestAuditEntries(db, accountId, { action, from }, limit + 1).map((entry) => {
      const owner = entry.accountId === null ? undefined : findAccount(config, db, entry.accountId)
      return {
        ...toAuditLogWire(entry, ''),
        position: entry.id,
        account_id: owner ? formatUuid(owner.uuid) : null,
        account: owner?.name ?? null,
      }
    })
    return { data: entries.slice(0, limit), has_more: entries.length > limit }
  })
}

type Entry = ReturnType<typeof list>['data'][number]

const COLUMNS = fields<Entry>()(
  'created_at account action actor_type actor_id ip_address resource_type resource_id metadata',
)

export function addAuditCommands(program: Command): void {
  const audit = program.command('audit').description('list or verify the audit log of all accounts')

  audit
    .add('verify', 'verify the hash chain of the log; exit code 1 if an entry was changed, removed or inserted')
    .option('--expect <hash>', 'require the log to contain this hash from an earlier run')
    .local((config, { expect }: { expect?: string }) => {
      if (expect === undefined || HASH_PATTERN.test(expect)) return verify(config, expect)
      throw new UsageError('--expect must be the 64 hexadecimal digits that `tassis audit verify` printed.')
    }, formatVerified)

  audit
    .add('list', 'list the newest entries of all accounts')
    .accountFilter()
    .limit('entries', 50)
    .option('--action <action>', 'only this action, such as api_key.created')
    .option('--since <time>', `only entries at or after this time: ${TIME_FORMS}`)
    .local(list, (page) => formatPage(page, 'No entries.', COLUMNS))
}

interface LogOptions {
  readonly status?: string
  readonly requestId?: string
  readonly q?: string
}

export function addLogsCommand(program: Command): void {
  program
    .add('logs', 'list the newest requests of an account by the API, SMTP and MCP')
    .account()
    .limit('requests', 30)
    .option('--status <status>', 'only with this status, such as 422, or class, such as 4xx')
    .option('--request-id <id>', 'only the request with this ID, which error responses have')
    .option('--q <text>', 'only with this text in path or error')
    .list(
      ({ api, options: { status, requestId, q }, query }: ListContext<LogOptions>) =>
        api.logs.list({ status, request_id: requestId, q, per_page: query.per_page }),
      'No requests found.',
      fields<Log>()('created_at kind method path status error_message actor_name ip_address request_id'),
    )
}
