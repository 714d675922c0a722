/** @module Options that several commands share, and their parsers. */
import { type Command, InvalidArgumentError } from 'commander'

export interface JsonOption {
  readonly json?: boolean | undefined
}

export interface AccountOption {
  readonly account?: string | undefined
}

/** Adds a command that prints its result as text, or as JSON. */
export const addCommand = (parent: Command, name: string, description: string): Command =>
  withJson(parent.command(name).description(description))

export const withJson = (command: Command): Command => command.option('--json', 'print JSON')

export const withAccount = (
  command: Command,
  description = 'the account; required only if there are several',
): Command => command.option('--account <id|name>', description)

/** Description of `--account` for commands that show all accounts by default. */
export const ONLY_ACCOUNT_DESCRIPTION = 'only this account'

/** Help of an argument that names an email. */
export const EMAIL_ARGUMENT = 'email ID, its beginning as shown by `tassis emails list`, or a Message-ID'

export const MAX_ROWS = 1000

/** Adds `--limit`, up to MAX_ROWS. @param rows such as `deliveries` */
export const withLimit = (command: Command, rows: string, fallback: number): Command =>
  command.option(
    '--limit <count>',
    `maximum number of ${rows}, up to ${MAX_ROWS}`,
    createWholeNumberParser(1, MAX_ROWS),
    fallback,
  )

/** Creates a parser for an option that is a whole number within limits. */
export function createWholeNumberParser(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d{1,15}$/.test(text) || value < min || value > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
    return value
  }
}

/** Parser for options that may be repeated. */
export const collectOption = (value: string, earlier: readonly string[] = []): readonly string[] => [...earlier, value]
