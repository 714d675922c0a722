/** @module Reads what a command is given in a file or on standard input. Never prompts. */
import { readFileSync } from 'node:fs'
import { runAsCaller } from '../data-owner.ts'
import { CommandError, UsageError } from './admin-command.ts'

/**
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
