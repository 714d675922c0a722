/** @module `tassis keys`: creates, imports, lists and revokes API keys; `master-keys.ts` adds commands for the master key. */
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { type Account, listAccounts } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { toOperatorActor } from '#features/people/sub-accounts/create-account.ts'
import { type ApiKey, createApiKey, listApiKeys, revokeApiKey } from '#features/setup/api-keys/keys.ts'
import { SCOPES } from '#features/setup/api-keys/scopes.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { findAccountId, resolveOperator } from '../find-account.ts'
import { CommandError, defineAdminCommand, UsageError } from './admin-command.ts'
import { runAdminCommand } from './call.ts'
import { addMasterKeyCommands } from './master-keys.ts'
import {
  type AccountOption,
  addCommand,
  collectOption,
  type JsonOption,
  ONLY_ACCOUNT_DESCRIPTION,
  withAccount,
} from './options.ts'
import { formatUtc, printList, printResult, printSecret, toList, toPrintable } from './output.ts'

const toKeyView = (key: ApiKey) => ({
  id: key.id,
  name: key.name,
  key_prefix: key.keyPrefix,
  scopes: key.scopes,
  last_used_at: isoTimeOrNull(key.lastUsedAt),
  created_at: isoTime(key.createdAt),
})

interface CreateKeyInput extends AccountOption {
  readonly name: string
  readonly scopes: readonly string[]
  /** The operator's own key string; undefined to generate one. */
  readonly key?: string | undefined
}

const create = defineAdminCommand(
  'keys.create',
  async ({ opened: { app } }, { account, name, scopes, key }: CreateKeyInput) => {
    const input = { name, scopes, ...(key !== undefined && { key }) }
    const created = await createApiKey(app, resolveOperator(app, account), input)
    return { ...toKeyView(created), key: created.key }
  },
)

const list = defineAdminCommand('keys.list', ({ opened: { app } }, { account }: AccountOption) =>
  listApiKeys(app.db, resolveOperator(app, account).accountId).map(toKeyView),
)

const revoke = defineAdminCommand(
  'keys.revoke',
  async ({ opened: { app } }, input: AccountOption & { readonly key: string }) => {
    const { key, account } = requireKey(app, input)
    await revokeApiKey(app, toOperatorActor(account), key.id)
    return { ...toKeyView(key), account: account.name }
  },
)

interface OwnedKey {
  readonly key: ApiKey
  readonly account: Account
}

/** The key with this id or beginning, else with this name. Throws 404, and 409 with the ids if several match. */
function requireKey(app: App, { account, key: text }: AccountOption & { readonly key: string }): OwnedKey {
  const all = listAccounts(app.config, app.db)
  const only = findAccountId(app, account)
  const keys = all
    .filter(({ id }) => only === undefined || id === only)
    .flatMap((owner) => listApiKeys(app.db, owner.id).map((key): OwnedKey => ({ key, account: owner })))
  const exact = keys.filter(
    ({ key: { id, keyPrefix } }) => id === text || keyPrefix === text.slice(0, keyPrefix.length),
  )
  const found = exact.length > 0 ? exact : keys.filter(({ key: { name } }) => name === text)
  const [first] = found
  if (!first)
    throw notFound('api_key_not_found', 'No API key has this ID, beginning or name; `tassis keys list` shows all.')
  if (found.length === 1) return first
  const shown = found
    .slice(0, MAX_SHOWN)
    .map(({ key, account: owner }) => `${key.id} (${key.keyPrefix}…, ${key.name}, account ${owner.name})`)
  throw conflict(
    'api_key_ambiguous',
    `${found.length} keys match, so none was revoked; give the ID of one: ${shown.join(', ')}${found.length > MAX_SHOWN ? ', …' : ''}.`,
  )
}

/** Keys shown if several match. */
const MAX_SHOWN = 10

export const keyAdminCommands = [create, list, revoke]

const formatScopes = (scopes: readonly string[]): string =>
  SCOPES.every((scope) => scopes.includes(scope)) ? 'all' : scopes.join(', ')

const SCOPE_DESCRIPTION = `scope of the key; repeat for several; default: all, that is ${SCOPES.join(', ')}`

export function addKeyCommands(program: Command): void {
  const keys = program.command('keys').description('create, import, list and revoke API keys; rotate the master key')

  withAccount(addCommand(keys, 'create', 'create an API key; it is shown only once'))
    .requiredOption('--name <name>', 'name of the key')
    .option('--scope <scope>', SCOPE_DESCRIPTION, collectOption)
    .action(async (options: JsonOption & AccountOption & { name: string; scope?: readonly string[] }) => {
      const { account, name, scope } = options
      const input = { account, name, scopes: scope ?? [] }
      const created = await runAdminCommand(create, input)
      printSecret(
        options,
        created,
        created.key,
        `This is the key "${toPrintable(name)}" (scopes: ${formatScopes(created.scopes)}). It is shown only once: store it.`,
      )
    })

  withAccount(addCommand(keys, 'import', 'import your own key string from standard input or a file'))
    .argument('[key]', 'the key; an argument is visible in the process list, so prefer standard input')
    .requiredOption('--name <name>', 'name of the key')
    .option('--file <path>', 'file with the key; default: standard input')
    .option('--scope <scope>', SCOPE_DESCRIPTION, collectOption)
    .action(
      async (
        keyArgument: string | undefined,
        options: JsonOption & AccountOption & { name: string; file?: string; scope?: readonly string[] },
      ) => {
        const { account, name, scope } = options
        if (keyArgument !== undefined && options.file !== undefined)
          throw new UsageError('Give the key as an argument or with --file, not both.')
        const key = keyArgument ?? readKey(options.file)
        const input = { account, name, scopes: scope ?? [], key }
        const imported = await runAdminCommand(create, input)
        const { key: _, ...shown } = imported
        printResult(
          options,
          shown,
          ({ id, key_prefix, scopes }) =>
            `Imported key "${toPrintable(name)}" (${id}), which begins with ${toPrintable(key_prefix)}; scopes: ${formatScopes(scopes)}.`,
        )
      },
    )

  withAccount(addCommand(keys, 'list', 'list the keys of an account')).action(
    async (options: JsonOption & AccountOption) => {
      printList(
        options,
        toList(await runAdminCommand(list, options)),
        'The account has no key; create one with `tassis keys create --name app`.',
        ['ID', 'NAME', 'BEGINS WITH', 'LAST USED', 'CREATED', 'SCOPES'],
        (key) => [
          key.id,
          key.name,
          key.key_prefix,
          key.last_used_at === null ? 'never' : formatUtc(key.last_used_at),
          formatUtc(key.created_at),
          formatScopes(key.scopes),
        ],
      )
    },
  )

  withAccount(addCommand(keys, 'revoke', 'revoke a key immediately'), ONLY_ACCOUNT_DESCRIPTION)
    .argument('<key>', 'its name, its ID, its first 16 characters, or the whole key')
    .action(async (key: string, options: JsonOption & AccountOption) => {
      const input = { account: options.account, key }
      printResult(
        options,
        await runAdminCommand(revoke, input),
        ({ id, name, key_prefix, account }) =>
          `Revoked key "${toPrintable(name)}" of ${toPrintable(account)} (${id}), which began with ${toPrintable(key_prefix)}.`,
      )
    })

  addMasterKeyCommands(keys)
}

/** Reads the key from the file or from standard input; never prompts. */
function readKey(file: string | undefined): string {
  if (file === undefined && process.stdin.isTTY) throw new UsageError('No key given; pipe it in, or use --file.')
  try {
    return readFileSync(file ?? 0, 'utf8').trim()
  } catch (error) {
    throw new CommandError(`The key cannot be read: ${error instanceof Error ? error.message : String(error)}.`)
  }
}
