/** @module The table of all admin commands. */
import { type AdminCommand, defineAdminCommand } from './admin-command.ts'
import { PING } from './call.ts'
import type { AdminCommand } from './admin-command.ts'

/**
 * Each command has its own type of input. Inputs are not validated, because they come only from commands of the same
 * version.
 */
export const adminCommands: readonly AdminCommand<never, unknown>[] = [
  ping,
]
