/** @module A command: its words and options, what it calls of the API, and how the answer is printed. */
import { Command as Commander, type CommandOptions } from 'commander'
import type { Pages } from '#client/client.ts'
import type { Config } from '#platform/settings/config.ts'
import { loadConfig } from '../settings.ts'
import { type CommandApi, findAccountFilter, pageSize, readRows, withApi } from './api.ts'
import { type CallOptions, requireData } from './call.ts'
import { type AccountOption, createWholeNumberParser, MAX_ROWS, withJson } from './options.ts'
import { type Columns, formatFields, formatPage, type JsonOption, printResult } from './output.ts'

/** What the function of a command gets: its options with those of its group, and the API for the account of `--account`. */
export interface Context<Options = unknown> {
  readonly api: CommandApi
  readonly options: Options & JsonOption & AccountOption
}

export interface ListContext<Options> extends Context<Options> {
  readonly query: { readonly account_id: string | undefined; readonly per_page: number }
}

interface Page<Row> {
  readonly data: readonly Row[]
}

export class Command extends Commander {
  override createCommand(name?: string): Command {
    return new Command(name)
  }

  /** Adds a command that prints its result as text, or as JSON. */
  add(name: string, description: string, options: CommandOptions = {}): Command {
    const command: Command = this.command(name, options).description(description)
    return withJson(command)
  }

  /** Adds `--account`, for which the API then acts. */
  account(description = 'the account; required only if there are several'): this {
    return this.option('--account <id|name>', description)
  }

  /** Adds `--account` to what shows all accounts by default. */
  accountFilter(): this {
    return this.account('only this account')
  }

  /** Adds `--limit`, up to MAX_ROWS. @param rows such as `deliveries` */
  limit(rows: string, fallback: number): this {
    const description = `maximum number of ${rows}, up to ${MAX_ROWS}`
    return this.option('--limit <count>', description, createWholeNumberParser(1, MAX_ROWS), fallback)
  }

  /** Calls `use` with the API. */
  run<Options, Args extends unknown[] = string[]>(
    use: (context: Context<Options>, ...args: Args) => Promise<void>,
    callOptions: CallOptions = {},
  ): this {
    return this.action(async (...given: unknown[]) => {
      const options = this.optsWithGlobals<Context<Options>['options']>()
      await withApi(options, (api) => use({ api, options }, ...(given.slice(0, -2) as Args)), callOptions)
    })
  }

  /** Prints what `call` gets of the API: with `--json` as it is, else as the text; without one, its fields. */
  answer<Options, Value extends object, Args extends unknown[] = string[]>(
    call: (context: Context<Options>, ...args: Args) => Promise<Value>,
    text: (value: Value, context: Context<Options>) => string = (value) =>
      formatFields('data' in value ? (value.data as object) : value),
    callOptions: CallOptions = {},
  ): this {
    return this.run<Options, Args>(
      async (context, ...args) =>
        printResult(context.options, await call(context, ...args), (value) => text(value, context)),
      callOptions,
    )
  }

  /** Prints what `read` gets of the data itself, with and without a service; exit code 1 if that is not `ok`. */
  local<Options, Value extends object>(
    read: (config: Config, options: Options & JsonOption & AccountOption) => Value | Promise<Value>,
    text: (value: Value) => string,
  ): this {
    return this.action(async (options: Options & JsonOption & AccountOption) => {
      const { config } = loadConfig()
      requireData(config)
      const value = await read(config, options)
      printResult(options, value, text)
      if ('ok' in value && !value.ok) process.exitCode = 1
    })
  }

  /** Prints a list of the API, with at most `--limit` rows; without rows, the sentence. */
  list<Options, Row, Args extends unknown[] = string[]>(
    read: (context: ListContext<Options>, ...args: Args) => Pages<Page<Row>> | Promise<Page<Row>>,
    sentenceWithoutRows: string,
    columns: Columns<Row> | ((rows: readonly Row[]) => Columns<Row>),
  ): this {
    return this.run<Options & { readonly limit?: number }, Args>(async ({ api, options }, ...args) => {
      const { limit = Number.POSITIVE_INFINITY } = options
      const query = { account_id: await findAccountFilter(api, options), per_page: pageSize(limit) }
      const pages = read({ api, options, query }, ...args)
      const found = await ('pages' in pages ? readRows(pages, limit) : pages)
      const shown = typeof columns === 'function' ? columns(found.data) : columns
      printResult(options, found, (page) => formatPage(page, sentenceWithoutRows, shown))
    })
  }
}
