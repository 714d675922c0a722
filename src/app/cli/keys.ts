/** @module `tassis keys`: make, import, list and revoke API keys. */
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { type ApiKey, createApiKey, listApiKeys, revokeApiKey } from '#features/setup/api-keys/keys.ts'
import { SCOPES } from '#features/setup/api-keys/scopes.ts'
import { conflict, notFound } from '#platform/errors.ts'
import { isoTime, isoTimeOrNull } from '#platform/http/envelope.ts'
import { loadConfig } from '../settings.ts'
import { operatorOf } from './accounts.ts'
import { withData } from './call.ts'
import { CommandError, operation } from './operation.ts'
import { type AccountOption, collected, type JsonOption, withAccount, withJson } from './options.ts'
import { print, printable, report, reportSecret, table, utc } from './output.ts'

interface ShownKey {
  readonly id: string
  readonly name: string
  readonly key_prefix: string
  readonly scopes: readonly string[]
  readonly last_used_at: string | null
  readonly created_at: string
}

const shownKey = (key: ApiKey): ShownKey => ({
  id: key.id,
  name: key.name,
  key_prefix: key.keyPrefix,
  scopes: key.scopes,
  last_used_at: isoTimeOrNull(key.lastUsedAt),
  created_at: isoTime(key.createdAt),
})

interface NewKey extends AccountOption {
  readonly name: string
  readonly scopes: readonly string[]
  /** A string of the operator's. */
  readonly key?: string
}

const create = operation('keys.create', async ({ opened: { app } }, { account, name, scopes, key }: NewKey) => {
  const created = await createApiKey(app, operatorOf(app, account), {
    name,
    scopes,
    ...(key !== undefined && { key }),
  })
  return { ...shownKey(created), key: created.key }
})

const list = operation('keys.list', ({ opened: { app } }, { account }: AccountOption) =>
  listApiKeys(app.db, operatorOf(app, account).accountId).map(shownKey),
)

const revoke = operation(
  'keys.revoke',
  async ({ opened: { app } }, input: AccountOption & { readonly key: string }) => {
    const actor = operatorOf(app, input.account)
    const keys = listApiKeys(app.db, actor.accountId)
    const found = keys.filter(
      ({ id, keyPrefix }) => id === input.key || keyPrefix === input.key.slice(0, keyPrefix.length),
    )
    const [key] = found
    if (!key) throw notFound('api_key_not_found', 'There is no such API key; `tassis keys list` shows all.')
    if (found.length > 1)
      throw conflict('api_key_ambiguous', 'Several keys begin like this; give the ID that `tassis keys list` shows.')
    await revokeApiKey(app, actor, key.id)
    return shownKey(key)
  },
)

export const keyOperations = [create, list, revoke]

const shownScopes = (scopes: readonly string[]): string =>
  SCOPES.every((scope) => scopes.includes(scope)) ? 'all' : scopes.join(', ')

const SCOPE_MEANING = `what it may do; several times for several; default: all, that is ${SCOPES.join(', ')}`

export function addKeyCommands(program: Command): void {
  const keys = program.command('keys').description('make, import, list and revoke API keys')

  withAccount(withJson(keys.command('create').description('make an API key; it is shown only once')))
    .requiredOption('--name <name>', 'what it is for')
    .option('--scope <scope>', SCOPE_MEANING, collected)
    .action(async (options: JsonOption & AccountOption & { name: string; scope?: readonly string[] }) => {
      const { account, name, scope } = options
      const input = { ...(account !== undefined && { account }), name, scopes: scope ?? [] }
      const created = await withData(loadConfig().config, (call) => call(create, input))
      reportSecret(
        options,
        created,
        created.key,
        `This is the key "${printable(name)}" (scopes: ${shownScopes(created.scopes)}). It is shown only now: keep it.`,
      )
    })

  withAccount(
    withJson(keys.command('import').description('take in a key string of your own, from standard input or a file')),
  )
    .argument('[key]', 'the key; others can see it in the list of processes, so rather pipe it in')
    .requiredOption('--name <name>', 'what it is for')
    .option('--file <path>', 'file that holds the key')
    .option('--scope <scope>', SCOPE_MEANING, collected)
    .action(
      async (
        given: string | undefined,
        options: JsonOption & AccountOption & { name: string; file?: string; scope?: readonly string[] },
      ) => {
        const { account, name, scope } = options
        const key = given ?? readKey(options.file)
        const input = { ...(account !== undefined && { account }), name, scopes: scope ?? [], key }
        const imported = await withData(loadConfig().config, (call) => call(create, input))
        const { key: _, ...shown } = imported
        report(
          options,
          shown,
          ({ id, key_prefix, scopes }) =>
            `Imported key "${printable(name)}" (${id}), which begins with ${printable(key_prefix)}; scopes: ${shownScopes(scopes)}.`,
        )
      },
    )

  withAccount(withJson(keys.command('list').description('list the keys of an account'))).action(
    async (options: JsonOption & AccountOption) => {
      const { account } = options
      const found = await withData(loadConfig().config, (call) => call(list, account === undefined ? {} : { account }))
      if (!options.json && found.length === 0)
        return print('The account has no key; make one with `tassis keys create --name app`.')
      report(options, found, (shown) =>
        table(
          ['ID', 'NAME', 'BEGINS WITH', 'LAST USED', 'CREATED', 'SCOPES'],
          shown.map((key) => [
            key.id,
            key.name,
            key.key_prefix,
            key.last_used_at === null ? 'never' : utc(key.last_used_at),
            utc(key.created_at),
            shownScopes(key.scopes),
          ]),
        ),
      )
    },
  )

  withAccount(withJson(keys.command('revoke').description('revoke a key; it takes effect at once')))
    .argument('<key>', 'its ID, its first 16 characters, or the whole key')
    .action(async (key: string, options: JsonOption & AccountOption) => {
      const input = { ...(options.account !== undefined && { account: options.account }), key }
      const revoked = await withData(loadConfig().config, (call) => call(revoke, input))
      report(
        options,
        revoked,
        ({ id, name, key_prefix }) =>
          `Revoked key "${printable(name)}" (${id}), which began with ${printable(key_prefix)}.`,
      )
    })
}

/** From the file, or from what is piped in; nobody is asked. */
function readKey(file: string | undefined): string {
  if (file === undefined && process.stdin.isTTY)
    throw new CommandError('No key was given; pipe it in, or name its file with --file.')
  try {
    return readFileSync(file ?? 0, 'utf8').trim()
  } catch (error) {
    throw new CommandError(`The key cannot be read: ${error instanceof Error ? error.message : String(error)}.`)
  }
}
