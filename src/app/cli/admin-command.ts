/**
 * @module Admin commands: functions that run in the process that owns the data directory, either the running service,
 * over its admin socket, or the command's own process.
 */
import type { OpenedApp, RunningDelivery } from '../create.ts'

export interface AdminCommandContext {
  readonly opened: OpenedApp
  /** Undefined when this process delivers no mail. */
  readonly delivery: RunningDelivery | undefined
}

/** Input and output travel as JSON. Throws AppError when it refuses the input. */
export interface AdminCommand<Input, Output> {
  readonly name: string
  run(context: AdminCommandContext, input: Input): Output | Promise<Output>
}

export const defineAdminCommand = <Input, Output>(
  name: string,
  run: AdminCommand<Input, Output>['run'],
): AdminCommand<Input, Output> => ({
  name,
  run,
})

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
