/** @module `tassis keys`: creates, imports, lists and revokes API keys; `master-keys.ts` adds commands for the master key. */
import type { Command } from 'commander'
import type { ApiKey } from '#client/api.ts'
import { SCOPES } from '#features/setup/api-keys/scopes.ts'
import { apiAction, findOne } from './api.ts'
import { UsageError } from './errors.ts'
import { readInput } from './input.ts'
import { addMasterKeyCommands } from './master-keys.ts'
import {
  type AccountOption,
  addCommand,
  collectOption,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
} from './options.ts'
import { type Columns, formatUtc, printPage, printResult, printSecret, toPrintable } from './output.ts'

const formatScopes = (scopes: readonly string[]): string =>
  SCOPES.every((scope) => scopes.includes(scope)) ? 'all' : scopes.join(', ')

const SCOPE_DESCRIPTION = `scope of the key; repeat for several; default: all, that is ${SCOPES.join(', ')}`

interface NewKeyOptions extends JsonOption, AccountOption {
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

  withAccount(addCommand(keys, 'create', 'create an API key; it is shown only once'))
    .requiredOption('--name <name>', 'name of the key')
    .option('--scope <scope>', SCOPE_DESCRIPTION, collectOption)
    .action(
      apiAction<NewKeyOptions>(async ({ api, options }) => {
        const created = await api.apiKeys.create({ name: options.name, scopes: options.scope })
        const { key, name, scopes } = created.data
        printSecret(
          options,
          created,
          key,
          `This is the key "${toPrintable(name)}" (scopes: ${formatScopes(scopes)}). It is shown only once: store it.`,
        )
      }),
    )

  withAccount(addCommand(keys, 'import', 'import your own key string from standard input or a file'))
    .argument('[key]', 'the key; an argument is visible in the process list, so prefer standard input')
    .requiredOption('--name <name>', 'name of the key')
    .option('--file <path>', 'file with the key; default: standard input')
    .option('--scope <scope>', SCOPE_DESCRIPTION, collectOption)
    .action(
      apiAction<NewKeyOptions & { file?: string }, [string?]>(async ({ api, options }, keyArgument) => {
        if (keyArgument !== undefined && options.file !== undefined)
          throw new UsageError('Give the key as an argument or with --file, not both.')
        const body = {
          name: options.name,
          scopes: options.scope,
          key: keyArgument ?? readInput(options.file, 'key').toString().trim(),
        }
        const { data: account } = await api.account.get()
        printResult(
          options,
          await api.operator.importAccountApiKey(account.id, body),
          ({ data: { id, name, key_prefix: start, scopes } }) =>
            `Imported key "${toPrintable(name)}" (${id}), which begins with ${toPrintable(start)}; scopes: ${formatScopes(scopes)}.`,
        )
      }),
    )

  withAccount(addCommand(keys, 'list', 'list the keys of an account')).action(
    apiAction(async ({ api, options }) =>
      printPage(
        options,
        await api.apiKeys.list(),
        'The account has no key; create one with `tassis keys create --name app`.',
        KEY_COLUMNS,
      ),
    ),
  )

  withAccount(addCommand(keys, 'revoke', 'revoke a key immediately'), ONLY_ACCOUNT_DESCRIPTION)
    .argument('<key>', 'its name, its ID, its first 16 characters, or the whole key')
    .action(
      apiAction(async ({ api, options }, key) => {
        const found = await findOne(api, 'api_key', key, options)
        await found.api.apiKeys.delete(found.id)
        const { api: _, ...shown } = found
        printResult(
          options,
          { data: shown },
          ({ data }) => `Revoked key ${toPrintable(data.label)} of ${toPrintable(data.account)} (${data.id}).`,
        )
      }),
    )

  addMasterKeyCommands(keys)
}
