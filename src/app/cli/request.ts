/** @module `tassis api`: sends a request to any route of the API as the operator, and prints the response. */
import type { Command } from 'commander'
import { parseJsonObject } from '#platform/json-object.ts'
import { CommandError, UsageError } from './admin-command.ts'
import { type CommandApi, withApi } from './api.ts'
import { readInput } from './input.ts'
import { type AccountOption, withAccount } from './options.ts'
import { formatJson, print, toPrintableLines } from './output.ts'

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']

export function addRequestCommand(program: Command): void {
  withAccount(program.command('api').description('send a request to any route of the API, with all rights'))
    .argument('<method>', METHODS.join(', '))
    .argument('<path>', 'path with its query, such as /v1/emails?status=bounced; /docs lists all')
    .argument('[body]', 'JSON; - reads it from standard input')
    .action(async (method: string, path: string, body: string | undefined, options: AccountOption) => {
      if (!METHODS.includes(method.toUpperCase())) throw new UsageError(`The method is one of ${METHODS.join(', ')}.`)
      if (!path.startsWith('/v1/')) throw new UsageError('The path begins with /v1/, such as /v1/emails.')
      const json = body === '-' ? readInput(body, 'body').toString() : body
      await withApi(options, (api) => request(api, method.toUpperCase(), path, json))
    })
}

async function request(api: CommandApi, method: string, path: string, body: string | undefined): Promise<void> {
  const response = await api.fetch(path, {
    method,
    ...(body !== undefined && { body, headers: { 'content-type': 'application/json' } }),
  })
  const text = await response.text()
  const json = parseJsonObject(text)
  if (response.ok && text !== '') print(json ? formatJson(json) : toPrintableLines(text))
  if (response.ok) return
  const { code, message } = (json ?? {}) as { readonly code?: string; readonly message?: string }
  throw new CommandError(message ?? `The service responded with status ${response.status}.`, code)
}
