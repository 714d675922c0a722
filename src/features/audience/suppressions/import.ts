/**
 * @module Imports a suppression list from a CSV file. A file that cannot be read imports nothing; an invalid line is
 * reported and skipped. Lines are committed in batches, so that a large file does not block other requests. If the
 * service stops during an import, the same file can be imported again.
 */

import { storeWithinPlan } from '#features/core/accounts/limits.ts'
import { requireOpenAccount } from '#features/core/accounts/rows.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { audit } from '#features/core/audit-logs/audit.ts'
import { findListRowId } from '#features/setup/contact-store/lists.ts'
import { findStreamId } from '#features/setup/streams/streams.ts'
import { UNSUBSCRIBE } from '#features/setup/suppression-store/check.ts'
import { suppress } from '#features/setup/suppression-store/suppress.ts'
import type { Tx } from '#platform/db/commit.ts'
import { invalid } from '#platform/errors.ts'
import type { Columns } from './columns.ts'
import { type CsvLine, readCsv } from './csv.ts'
import type { ImportResult } from './model.ts'
import { parseReason, parseSuppressedAddress, toScope } from './suppressions.ts'

/** Lines per transaction: about 4 ms. */
const BATCH_SIZE = 250
const MAX_ERRORS = 100

/**
 * Imports a file. Throws 422 `invalid_csv` for an invalid file, before anything is stored, and 404 when the account was
 * deleted during the import.
 * @param defaultReason of lines without a reason; default: manual
 */
export async function importSuppressions(
  app: App,
  actor: Actor,
  file: Uint8Array,
  defaultReason?: string,
): Promise<ImportResult> {
  const parsed = parseReason(defaultReason)
  if ('error' in parsed) throw invalid('reason', parsed.error)
  // The file is read twice: an error near its end must be found before its beginning is imported.
  let total = 0
  let ignored: string[] = []
  const onColumnsRead = (columns: Columns): void => {
    ignored = [...columns.ignored]
  }
  for await (const lines of readCsv(file, onColumnsRead)) total += lines.length
  const data: ImportResult['data'] = { imported: 0, already_suppressed: 0, invalid: 0, total, ignored_columns: ignored }
  const errors: ImportResult['errors'] = []
  let isStarted = false
  const owner = getTenantId(app.db, actor.accountId)
  for await (const batch of toBatches(readCsv(file))) {
    app.workBudget.charge(actor.accountId, batch.length)
    const results = await app.commit.write(
      (tx) => {
        requireOpenAccount(tx.db, actor.accountId)
        if (!isStarted) {
          audit(app, tx, actor, {
            action: 'suppression.imported',
            resourceType: 'suppression',
            metadata: { lines: total },
          })
        }
        return storeWithinPlan(app, tx, actor.accountId, () =>
          batch.map((line) => importLine(app, tx, actor, line, parsed.reason)),
        )
      },
      { owner },
    )
    isStarted = true
    for (const [index, result] of results.entries()) {
      const line = batch[index]?.line ?? 0
      if (typeof result === 'boolean') data[result ? 'imported' : 'already_suppressed']++
      else if (++data.invalid <= MAX_ERRORS) errors.push({ line, error: result.error })
    }
  }
  return { data, errors }
}

async function* toBatches(groups: AsyncIterable<readonly CsvLine[]>): AsyncGenerator<readonly CsvLine[]> {
  for await (const lines of groups)
    for (let from = 0; from < lines.length; from += BATCH_SIZE) yield lines.slice(from, from + BATCH_SIZE)
}

/** Whether the line is new on the list, or why it is invalid. */
function importLine(
  app: App,
  tx: Tx,
  { accountId }: Actor,
  line: CsvLine,
  defaultReason: string,
): boolean | { readonly error: string } {
  if (line.kind === 'broken') return { error: line.error }
  const listed = parseSuppressedAddress(line.email_address)
  if ('reason' in listed) return { error: listed.reason }
  const parsed = parseReason(line.reason === '' ? defaultReason : line.reason)
  if ('error' in parsed) return parsed
  const { reason } = parsed
  const suppression = { accountId, address: listed.address, reason, covers: toScope(reason), keepsFirst: true }
  if (line.stream === '' && line.list === '') return suppress(app, tx, suppression)
  if (reason !== UNSUBSCRIBE) return { error: `Only the reason ${UNSUBSCRIBE} can be limited to a stream or a list.` }
  if (line.stream !== '' && line.list !== '')
    return { error: 'The line names a stream and a list; set only one of them.' }
  if (line.list !== '') {
    const listId = findListRowId(tx.db, accountId, line.list)
    return listId === undefined
      ? { error: `There is no contact list with the id ${JSON.stringify(line.list.slice(0, 36))} on this account.` }
      : suppress(app, tx, { ...suppression, listId })
  }
  const streamId = findStreamId(tx.db, accountId, line.stream)
  return streamId === undefined
    ? { error: `There is no stream ${JSON.stringify(line.stream.slice(0, 63))} on this account.` }
    : suppress(app, tx, { ...suppression, streamId })
}
