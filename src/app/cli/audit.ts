import { findAccount } from '#features/core/accounts/accounts.ts'
import { toAuditLogWire } from '#features/core/audit-logs/model.ts'
import { type AuditFilter, listNewestAuditEntries } from '#features/core/audit-logs/read.ts'
import { type AuditVerification, verifyAuditLog } from '#features/core/audit-logs/verify.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Config } from '#platform/settings/config.ts'
import { truncate } from '#platform/text.ts'
import { systemClock } from '#platform/time/clock.ts'
import { findAccountId } from '../find-account.ts'
import { loadConfig } from '../settings.ts'
import { requireData } from './call.ts'
import type { Command } from './command.ts'
import { UsageError } from './errors.ts'
import type { AccountOption, JsonOption } from './options.ts'
import { type Columns, formatUtc, printPage, printResult, toPrintable } from './output.ts'
import { withSnapshot } from './snapshot.ts'
import { parseInstantOption, TIME_FORMS } from './times.ts'

function toVerificationView(found: AuditVerification, at: string, expected: string | undefined) {
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

function formatVerification(found: ReturnType<typeof toVerificationView>): string {
  const { entries, erased, removed_up_to, head, expected, broken, broken_count } = found
  const more = broken_count - broken.length
  return [
    `${entries} entries${erased > 0 ? `, the personal fields of ${erased} of them erased` : ''}${
      removed_up_to > 0 ? `; entries up to ${removed_up_to} were deleted by retention` : ''
    }.`,
    `Newest: entry ${head.id}, hash ${head.hash}, read at ${formatUtc(found.at)}`,
    ...broken.map(
      ({ position, id, created_at, reason }) =>
        `WRONG   entry ${position}${id === null ? '' : ` (${id}${created_at === null ? '' : `, ${formatUtc(created_at)}`})`} ${reason}.`,
    ),
    ...(more > 0 ? [`WRONG   and ${more} more.`] : []),
    ...(expected?.found === false ? [`WRONG   no entry has the hash ${expected.hash}.`] : []),
    ...(expected?.found === true ? [`ok      the hash ${expected.hash} is in the log.`] : []),
    '',
    found.ok
      ? 'The log is unchanged. Store the hash elsewhere: `tassis audit verify --expect HASH` later checks that the log still contains it.'
      : 'The log was CHANGED.',
  ].join('\n')
}

const HASH_PATTERN = /^[0-9a-f]{64}$/i

function verify(config: Config, expected: string | undefined) {
  const at = isoTime(systemClock.now())
  return withSnapshot(config, (db) => toVerificationView(verifyAuditLog(db, expected), at, expected))
}

interface ListOptions extends JsonOption, AccountOption {
  readonly action?: string | undefined
  readonly since?: string | undefined
  readonly limit: number
}

function list(config: Config, { account, action, since, limit }: ListOptions) {
  const from = parseInstantOption('--since', since, systemClock.now())
  return withSnapshot(config, (db) => {
    const filter: AuditFilter = { action, from }
    const accountId = findAccountId({ config, db }, account)
    const entries = listNewestAuditEntries(db, accountId, filter, limit + 1).map((entry) => {
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

const MAX_METADATA_LENGTH = 60

const COLUMNS: Columns<ReturnType<typeof list>['data'][number]> = {
  TIME: (entry) => formatUtc(entry.created_at),
  ACCOUNT: ({ account }) => account ?? '-',
  ACTION: ({ action }) => action,
  BY: ({ actor_type: type, actor_id: id }) => (type === id || id === 'cli' ? type : `${type} ${id}`),
  FROM: (entry) => entry.ip_address ?? '-',
  ON: (entry) => entry.resource_id ?? entry.resource_type ?? '-',
  MORE: ({ metadata }) => (metadata === null ? '' : truncate(JSON.stringify(metadata), MAX_METADATA_LENGTH)),
}

export function addAuditCommands(program: Command): void {
  const audit = program.command('audit').description('list or verify the audit log of all accounts')

  audit
    .add('verify', 'verify the hash chain of the log; exit code 1 if an entry was changed, removed or inserted')
    .option('--expect <hash>', 'require the log to contain this hash from an earlier run')
    .action((options: JsonOption & { expect?: string }) => {
      const { config } = loadConfig()
      const { expect } = options
      if (expect !== undefined && !HASH_PATTERN.test(expect))
        throw new UsageError('--expect must be the 64 hexadecimal digits that `tassis audit verify` printed.')
      requireData(config)
      const found = verify(config, expect)
      printResult(options, found, formatVerification)
      if (!found.ok) process.exitCode = 1
    })

  audit
    .add('list', 'list the newest entries of all accounts')
    .accountFilter()
    .limit('entries', 50)
    .option('--action <action>', 'only this action, such as api_key.created')
    .option('--since <time>', `only entries at or after this time: ${TIME_FORMS}`)
    .action((options: ListOptions) => {
      const { config } = loadConfig()
      requireData(config)
      printPage(options, list(config, options), `No entries${formatFilter(options)}.`, COLUMNS)
    })
}

const formatFilter = ({ action, since }: ListOptions): string =>
  [action && ` with action ${toPrintable(action)}`, since && ` since ${toPrintable(since)}`].filter(Boolean).join('')
