/** @module `tassis keys rotate-master` and `list-master`: the keys under which the secrets in the database are sealed. */
import type { Command } from 'commander'
import type { OperatorMasterKey, RotateOperatorMasterKeysResult } from '#client/operator-api.ts'
import { IF_FOREIGN_KEY } from '../master-key.ts'
import { apiAction } from './api.ts'
import { addCommand } from './options.ts'
import { formatTable, formatUtc, printResult } from './output.ts'

export function addMasterKeyCommands(keys: Command): void {
  addCommand(
    keys,
    'rotate-master',
    'create a new master key and seal every stored secret again under it; delivery goes on',
  ).action(
    apiAction(async ({ api, options }) => {
      const rotated = await api.operator.rotateMasterKeys()
      printResult(options, rotated, ({ data }) => formatRotated(data))
      if (rotated.data.unreadable > 0) process.exitCode = 1
    }),
  )

  addCommand(keys, 'list-master', 'list the master keys, and the number of secrets sealed under each').action(
    apiAction(async ({ api, options }) =>
      printResult(options, await api.operator.listMasterKeys(), ({ data: shown, newest_since: since }) =>
        [
          formatTable(
            ['KEY', 'SECRETS', 'STATE'],
            shown.map((each) => [each.key ?? 'unknown', String(each.secrets), describeState(each, since)]),
          ),
          ...formatRotation(shown),
        ].join('\n\n'),
      ),
    ),
  )
}

/** A warning while a rotation is in progress. */
function formatRotation([newest, ...others]: readonly OperatorMasterKey[]): string[] {
  if (!newest || !others.some(({ key, is_needed: isNeeded }) => key !== null && isNeeded)) return []
  return [`A rotation is in progress: every secret is sealed again under ${newest.key};\n${IF_FOREIGN_KEY}.`]
}

function describeState(
  { key, is_newest: isNewest, is_needed: isNeeded }: OperatorMasterKey,
  since: string | null,
): string {
  const from = since === null ? '' : ` ${formatUtc(since)}`
  if (key === null)
    return 'lost: no master key opens these; set them again (webhook secrets, DKIM keys, second factors)'
  if (isNewest) return `newest${since === null ? '' : `, since${from}`}: seals and signs everything`
  if (isNeeded) return 'former, still needed: a service seals these again within a minute of its start'
  return `former: only verifies links and addresses in mail sent before${from === '' ? ' the rotation' : from}; may be removed when those may stop working`
}

function formatRotated({
  key,
  former,
  path,
  resealed,
  unreadable,
  was_begun: wasBegun,
}: RotateOperatorMasterKeysResult): string {
  const secrets = resealed === 1 ? '1 secret is' : `${resealed} secrets are`
  return [
    wasBegun
      ? `Finished the rotation to the master key ${key}, which had begun before: ${secrets} sealed again under it.`
      : `The new master key ${key} is the first line of ${path}; ${secrets} sealed again under it.`,
    'Back up this file now, apart from the data: nothing opens the database without it.',
    '',
    `Former keys stay below it: ${former.join(', ')}. Links (unsubscribe, confirm, tracking, files), return paths and`,
    'secrets of Supabase hooks that were made with them work until you remove their lines and restart Tassis.',
    'A backup opens with the key that was the newest when it was made, so with this file, too.',
    'Unchanged on purpose: ids of events (receivers compare them) and hashes of erased addresses. Not part of this:',
    'DKIM keys (`tassis domains rotate-dkim`), webhook secrets, API keys, passwords.',
    ...(unreadable > 0
      ? [
          '',
          `${unreadable} secrets could not be opened by any key and stay as they are; see \`tassis keys list-master\`.`,
        ]
      : []),
  ].join('\n')
}
