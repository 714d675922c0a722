/** @module Options that several commands have, and the numbers that they take. */
import { type Command, InvalidArgumentError } from 'commander'

export interface JsonOption {
  readonly json?: boolean
}

export interface AccountOption {
  readonly account?: string
}

export const withJson = (command: Command): Command => command.option('--json', 'print JSON, for programs')

export const withAccount = (command: Command, meaning = 'the account; needed only when there are several'): Command =>
  command.option('--account <id|name>', meaning)

/** Meaning of `--account` for what shows all accounts by itself. */
export const ONLY_ACCOUNT = 'only of this account'

/** Most rows that a list shows at once. */
const MOST_SHOWN = 1000

/** `--limit`, up to MOST_SHOWN. `meaning` says of what, such as `most deliveries that are shown`. */
export const withLimit = (command: Command, meaning: string, fallback: number): Command =>
  command.option('--limit <count>', `${meaning}, up to ${MOST_SHOWN}`, wholeNumber(1, MOST_SHOWN), fallback)

/** Reads an option that is a whole number within bounds; the refusal says which. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d{1,15}$/.test(text) || value < least || value > most)
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
    return value
  }
}

/** For options that may come several times. */
export const collected = (value: string, earlier: readonly string[] = []): readonly string[] => [...earlier, value]
