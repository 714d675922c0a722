/**
 * @module What a command asks of the process that owns the data directory: a running service through its admin socket, or else the command's own
 * process. Both run the same function.
 */
import type { OpenedApp, RunningDelivery } from '../create.ts'

export interface AdminCommandContext {
  readonly opened: OpenedApp
  /** Undefined when nothing is delivered by this process. */
  readonly delivery: RunningDelivery | undefined
}

/** Input and output travel as JSON. Throws AppError for a refusal. */
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

/** What went wrong, in one sentence; the command ends with exit code 1. */
export class CommandError extends Error {}
