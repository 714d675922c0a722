/** @module What commands read and ask: a file or standard input, and a yes before something changes. */
import { readFileSync } from 'node:fs'
import { runAsCaller } from '../data-owner.ts'
import { CommandError, UsageError } from './errors.ts'

/**
 * Never prompts.
 * @param path undefined or `-`: standard input
 * @param noun such as `key`
 */
export function readInput(path: string | undefined, noun: string): Buffer<ArrayBuffer> {
  const isStandardInput = path === undefined || path === '-'
  if (isStandardInput && process.stdin.isTTY) throw new UsageError(`No ${noun} given; pipe it in.`)
  try {
    return runAsCaller(() => Buffer.from(readFileSync(isStandardInput ? 0 : path)))
  } catch (error) {
    throw new CommandError(
      `${isStandardInput ? 'Standard input' : path} cannot be read: ${error instanceof Error ? error.message : String(error)}.`,
    )
  }
}

/** The API key in a file. */
export const readKeyFile = (path: string): string => readInput(path, 'key').toString().trim()

/**
 * Asks whether to go on; throws CommandError without a yes. Without a terminal, `--yes` is required.
 * @param facts what would be changed, without a full stop
 * @param action such as `bounce them`
 */
export function confirmAction({ yes }: { readonly yes?: boolean | undefined }, facts: string, action: string): void {
  if (yes) return
  if (!process.stdin.isTTY)
    throw new CommandError(`${facts}; nothing was changed. Add --yes to ${action}.`, 'not_confirmed')
  if (!globalThis.confirm(`${facts}. Do you want to ${action}?`))
    throw new CommandError('Nothing was changed.', 'not_confirmed')
}
