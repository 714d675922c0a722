/** @module Errors of commands. */

/** A failure in one sentence; the command ends with exit code 1. */
export class CommandError extends Error {
  readonly code: string

  /** @param code for programs: stable, in snake_case */
  constructor(message: string, code = 'command_failed') {
    super(message)
    this.code = code
  }
}

/** Options or arguments that make no sense, found before anything was done; the command ends with exit code 2. */
export class UsageError extends CommandError {
  constructor(message: string, code = 'wrong_usage') {
    super(message, code)
  }
}
