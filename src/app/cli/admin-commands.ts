/** @module The table of all admin commands. */
import { type AdminCommand, defineAdminCommand } from './admin-command.ts'
import { backupAdminCommands } from './backup.ts'
import { bulkAdminCommands } from './bulk-operations.ts'
import { PING } from './call.ts'
import { checkAdminCommands } from './check.ts'
import { configAdminCommands } from './config.ts'
import { deadLetterAdminCommands } from './dead-letters.ts'
import { doctorAdminCommands } from './doctor.ts'
import { emailAdminCommands } from './emails.ts'
import { explainAdminCommands } from './explain.ts'
import { inboundAdminCommands } from './inbound.ts'
import { localServiceAdminCommands } from './local-service.ts'
import { retentionAdminCommands } from './retention.ts'
import { webhookAdminCommands } from './webhooks.ts'

const ping = defineAdminCommand(PING, () => null)

/**
 * Each command has its own type of input. Inputs are not validated, because they come only from commands of the same
 * version.
 */
export const adminCommands: readonly AdminCommand<never, unknown>[] = [
  ping,
  ...emailAdminCommands,
  ...explainAdminCommands,
  ...deadLetterAdminCommands,
  ...webhookAdminCommands,
  ...bulkAdminCommands,
  ...inboundAdminCommands,
  ...retentionAdminCommands,
  ...configAdminCommands,
  ...checkAdminCommands,
  ...localServiceAdminCommands,
  ...doctorAdminCommands,
  ...backupAdminCommands,
]
