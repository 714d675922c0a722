/** @module Options that several commands have. */
import type { Command } from 'commander'

export interface JsonOption {
  readonly json?: boolean
}

export interface AccountOption {
  readonly account?: string
}

export const withJson = (command: Command): Command => command.option('--json', 'print JSON, for programs')

export const withAccount = (command: Command): Command =>
  command.option('--account <id|name>', 'the account; needed only when there are several')

/** For options that may come several times. */
export const collected = (value: string, earlier: readonly string[] = []): readonly string[] => [...earlier, value]
