/** @module Options that several commands have, and the numbers that they take. */
import { type Command, InvalidArgumentError } from 'commander'

export interface JsonOption {
  readonly json?: boolean
}

export interface AccountOption {
  readonly account?: string
}

export const withJson = (command: Command): Command => command.option('--json', 'print JSON, for programs')

export const withAccount = (
  command: Command,
  description = 'the account; needed only when there are several',
): Command => command.option('--account <id|name>', description)

/** Meaning of `--account` for what shows all accounts by itself. */
export const ONLY_ACCOUNT_DESCRIPTION = 'only of this account'

/** Most rows that a list shows at once. */
const MAX_ROWS = 1000

/** `--limit`, up to MAX_ROWS. `meaning` says of what, such as `most deliveries that are shown`. */
export const withLimit = (command: Command, description: string, fallback: number): Command =>
  command.option('--limit <count>', `${description}, up to ${MAX_ROWS}`, createWholeNumberParser(1, MAX_ROWS), fallback)

/** Reads an option that is a whole number within bounds; the refusal says which. */
export function createWholeNumberParser(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d{1,15}$/.test(text) || value < min || value > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
    return value
  }
}

/** For options that may come several times. */
export const collectOption = (value: string, earlier: readonly string[] = []): readonly string[] => [...earlier, value]
