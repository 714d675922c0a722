/** @module Options that several commands share, and their parsers. */
import { type Command, InvalidArgumentError } from 'commander'

export interface JsonOption {
  readonly json?: boolean | undefined
}

export interface AccountOption {
  readonly account?: string | undefined
}

export const withJson = <C extends Command>(command: C): C => command.option('--json', 'print JSON')

/** Help of an argument that names an email. */
export const EMAIL_ARGUMENT = 'email ID, its beginning as shown by `tassis emails list`, or a Message-ID'

export const MAX_ROWS = 1000

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
