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
import { collectOption, readInput } from './options.ts'
import { type Columns, fields, formatFields, formatPage, formatUtc, joinParagraphs, printSecret } from './output.ts'

const formatScopes = (scopes: readonly string[]): string =>
  SCOPES.every((scope) => scopes.includes(scope)) ? 'all' : scopes.join(', ')

const SCOPE_DESCRIPTION = `scope of the key; repeat for several; default: all, that is ${SCOPES.join(', ')}`

interface NewKeyOptions {
  readonly name: string
  readonly scope?: readonly string[]
}

const KEY_COLUMNS: Columns<ApiKey> = {
  ...fields<ApiKey>()('id name key_prefix last_used_at created_at'),
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
      const sentence = `This is the key "${name}" (scopes: ${formatScopes(scopes)}). It is shown only once: store it.`
      printSecret(options, created, key, sentence)
    })

  keys
    .add('import', 'import your own key string from standard input or a file')
    .account()
    .argument('[key]', 'the key; an argument is visible in the process list, so prefer standard input')
    .requiredOption('--name <name>', 'name of the key')
    .option('--file <path>', 'file with the key; default: standard input')
    .option('--scope <scope>', SCOPE_DESCRIPTION, collectOption)
    .answer(async ({ api, options }: Context<NewKeyOptions & { file?: string }>, keyArgument?: string) => {
      const { name, scope: scopes, file } = options
      if (keyArgument !== undefined && file !== undefined)
        throw new UsageError('Give the key as an argument or with --file, not both.')
      const key = keyArgument ?? readInput(file, 'key').toString().trim()
      return api.operator.importAccountApiKey((await api.account.get()).data.id, { name, scopes, key })
    })

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
    .answer(
      async ({ api: all, options }, key) => {
        const { api, ...found } = await findOne(all, 'api_key', key, options)
        await api.apiKeys.delete(found.id)
        return { data: found }
      },
      ({ data }) => `Revoked key ${data.label} of ${data.account} (${data.id}).`,
    )

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
      joinParagraphs(
        formatPage({ data: shown }, '', fields<OperatorMasterKey>()('key secrets is_newest is_needed')),
        since !== null && `The newest key seals and signs everything since ${formatUtc(since)}.`,
        shown.some(({ key, is_newest: isNewest, is_needed: isNeeded }) => key !== null && !isNewest && isNeeded)
          ? `A rotation is in progress: a service seals every secret again within a minute of its start;\n${IF_FOREIGN_KEY}.`
          : 'Keys that are not needed only verify links and addresses in mail sent before. No master key opens the secrets of a row\nwithout a key: set them again.',
      ),
  )
}

const formatRotated = (rotated: RotateOperatorMasterKeysResult): string =>
  joinParagraphs(
    formatFields(rotated),
    'Back up this file now, apart from the data: nothing opens the database without it. Former keys stay in it, below the\nnew one: links (unsubscribe, confirm, tracking, files), return paths and secrets of Supabase hooks that were made with\nthem work until you remove their lines and restart Tassis. DKIM keys (`tassis domains rotate-dkim`), webhook secrets,\nAPI keys and passwords stay as they are.',
    rotated.unreadable > 0 && 'Unreadable secrets could not be opened by any key; see `tassis keys list-master`.',
  )
