/**
 * @module `tassis keys`: creates, imports, lists and revokes API keys; rotates and lists the master keys, under which
 * the secrets in the database are sealed.
 */
import type { ApiKey } from '#client/api.ts'
import type { OperatorMasterKey, RotateOperatorMasterKeysResult } from '#client/operator-api.ts'
import { SCOPES } from '#features/setup/api-keys/scopes.ts'
import { IF_FOREIGN_KEY } from '../master-key.ts'
import { findOne } from './api.ts'
import type { Command, Context } from './command.ts'
import { UsageError } from './errors.ts'
import { readInput } from './input.ts'
import { collectOption } from './options.ts'
import { type Columns, formatTable, formatUtc, printResult, printSecret, toPrintable } from './output.ts'

const formatScopes = (scopes: readonly string[]): string =>
  SCOPES.every((scope) => scopes.includes(scope)) ? 'all' : scopes.join(', ')

const SCOPE_DESCRIPTION = `scope of the key; repeat for several; default: all, that is ${SCOPES.join(', ')}`

interface NewKeyOptions {
  readonly name: string
  readonly scope?: readonly string[]
}

const KEY_COLUMNS: Columns<ApiKey> = {
  ID: ({ id }) => id,
  NAME: ({ name }) => name,
  'BEGINS WITH': ({ key_prefix: start }) => start,
  'LAST USED': ({ last_used_at: at }) => (at ? formatUtc(at) : 'never'),
  CREATED: ({ created_at: at }) => formatUtc(at),
  SCOPES: ({ scopes }) => formatScopes(scopes),
}

export function addKeyCommands(program: Command): void {
  const keys = program.command('keys').description('create, import, list and revoke API keys; rotate the master key')

  keys
    .add('create', 'create an API key; it is shown only once')
    .account()
    .requiredOption('--name <name>', 'name of the key')
    .option('--scope <scope>', SCOPE_DESCRIPTION, collectOption)
    .run(async ({ api, options }: Context<NewKeyOptions>) => {
      const created = await api.apiKeys.create({ name: options.name, scopes: options.scope })
      const { key, name, scopes } = created.data
      printSecret(
        options,
        created,
        key,
        `This is the key "${toPrintable(name)}" (scopes: ${formatScopes(scopes)}). It is shown only once: store it.`,
      )
    })

  keys
    .add('import', 'import your own key string from standard input or a file')
    .account()
    .argument('[key]', 'the key; an argument is visible in the process list, so prefer standard input')
    .requiredOption('--name <name>', 'name of the key')
    .option('--file <path>', 'file with the key; default: standard input')
    .option('--scope <scope>', SCOPE_DESCRIPTION, collectOption)
    .answer(
      async ({ api, options }: Context<NewKeyOptions & { file?: string }>, keyArgument?: string) => {
        if (keyArgument !== undefined && options.file !== undefined)
          throw new UsageError('Give the key as an argument or with --file, not both.')
        const body = {
          name: options.name,
          scopes: options.scope,
          key: keyArgument ?? readInput(options.file, 'key').toString().trim(),
        }
        const { data: account } = await api.account.get()
        return api.operator.importAccountApiKey(account.id, body)
      },
      ({ data: { id, name, key_prefix: start, scopes } }) =>
        `Imported key "${toPrintable(name)}" (${id}), which begins with ${toPrintable(start)}; scopes: ${formatScopes(scopes)}.`,
    )

  keys
    .add('list', 'list the keys of an account')
    .account()
    .list(
      ({ api }) => api.apiKeys.list(),
      'The account has no key; create one with `tassis keys create --name app`.',
      KEY_COLUMNS,
    )

  keys
    .add('revoke', 'revoke a key immediately')
    .accountFilter()
    .argument('<key>', 'its name, its ID, its first 16 characters, or the whole key')
    .run(async ({ api, options }, key) => {
      const found = await findOne(api, 'api_key', key, options)
      await found.api.apiKeys.delete(found.id)
      const { api: _, ...shown } = found
      printResult(
        options,
        { data: shown },
        ({ data }) => `Revoked key ${toPrintable(data.label)} of ${toPrintable(data.account)} (${data.id}).`,
      )
    })

  addMasterKeyCommands(keys)
}

export function addMasterKeyCommands(keys: Command): void {
  keys
    .add('rotate-master', 'create a new master key and seal every stored secret again under it; delivery goes on')
    .answer(
      async ({ api }) => {
        const rotated = await api.operator.rotateMasterKeys()
        if (rotated.data.unreadable > 0) process.exitCode = 1
        return rotated
      },
      ({ data }) => formatRotated(data),
    )

  keys.add('list-master', 'list the master keys, and the number of secrets sealed under each').answer(
    async ({ api }) => api.operator.listMasterKeys(),
    ({ data: shown, newest_since: since }) =>
      [
        formatTable(
          ['KEY', 'SECRETS', 'STATE'],
          shown.map((each) => [each.key ?? 'unknown', String(each.secrets), describeState(each, since)]),
        ),
        ...formatRotation(shown),
      ].join('\n\n'),
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
