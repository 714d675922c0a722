/** @module The table of all admin commands. */
import { type AdminCommand, defineAdminCommand } from './admin-command.ts'
import { backupAdminCommands } from './backup.ts'
import { PING } from './call.ts'
import { checkAdminCommands } from './check.ts'
import { configAdminCommands } from './config.ts'
import { doctorAdminCommands } from './doctor.ts'
import { localServiceAdminCommands } from './local-service.ts'
import { retentionAdminCommands } from './retention.ts'

const ping = defineAdminCommand(PING, () => null)

/**
 * Each command has its own type of input. Inputs are not validated, because they come only from commands of the same
 * version.
 */
export const adminCommands: readonly AdminCommand<never, unknown>[] = [
  ping,
  ...retentionAdminCommands,
  ...configAdminCommands,
  ...checkAdminCommands,
  ...localServiceAdminCommands,
  ...doctorAdminCommands,
  ...backupAdminCommands,
]
