/** @module A command: its words and options, what it calls of the API, and how the answer is printed. */
import { Command as Commander, type CommandOptions, Option } from 'commander'
import type { Pages } from '#client/client.ts'
import type { Config } from '#platform/settings/config.ts'
import { loadConfig } from '../settings.ts'
import { type CommandApi, findAccountFilter, pageSize, readRows, withApi } from './api.ts'
import { type CallOptions, requireData } from './call.ts'
import { type AccountOption, createWholeNumberParser, MAX_ROWS, withJson } from './options.ts'
import { type Cells, type Columns, formatFields, formatPage, type JsonOption, printResult } from './output.ts'

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

/** What arguments mean, by their names. */
type Arguments = Readonly<Record<string, string>>

export class Command extends Commander {
  override createCommand(name?: string): Command {
    return new Command(name)
  }

  /** Adds a command that prints its result as text, or as JSON. @param usage its name and arguments: `show <id>` */
  add(usage: string, description: string, meanings: Arguments = {}, options: CommandOptions = {}): Command {
    const [name = '', ...names] = usage.split(' ')
    const command: Command = this.command(name, options).description(description)
    for (const argument of names) command.argument(argument, meanings[argument.slice(1, -1)] ?? '')
    return withJson(command)
  }

  /** Adds a group of commands; returns the function that adds one. @param shared meanings of arguments of several */
  group(name: string, description: string, shared: Arguments = {}) {
    const group = this.command(name).description(description)
    return (usage: string, text: string, meanings: Arguments = {}, options?: CommandOptions): Command =>
      group.add(usage, text, { ...shared, ...meanings }, options)
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

  /** Adds an option with one of these values. */
  choice(flags: string, description: string, values: readonly string[], fallback?: string): this {
    return this.addOption(new Option(flags, description).choices(values).default(fallback))
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

  /** Prints a list of the API, with at most `--limit` rows and these columns; without rows, the sentence. */
  list<Options, Row, Names extends string, Cell extends string = never, Args extends unknown[] = string[]>(
    read: (context: ListContext<Options>, ...args: Args) => Pages<Page<Row>> | Promise<Page<Row>>,
    columns: Columns<Row, Cell, Names>,
    cells?: Cells<Row, Cell>,
    sentenceWithoutRows = 'There is none.',
  ): this {
    return this.run<Options & { readonly limit?: number }, Args>(async ({ api, options }, ...args) => {
      const { limit = Number.POSITIVE_INFINITY } = options
      const query = { account_id: await findAccountFilter(api, options), per_page: pageSize(limit) }
      const pages = read({ api, options, query }, ...args)
      const found = await ('pages' in pages ? readRows(pages, limit) : pages)
      printResult(options, found, (page) => formatPage(page, columns, cells, sentenceWithoutRows))
    })
  }
}
