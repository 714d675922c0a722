/** @module The table of all admin commands. */
import { abuseAdminCommands } from './abuse.ts'
import { accountAdminCommands } from './accounts.ts'
import { type AdminCommand, defineAdminCommand } from './admin-command.ts'
import { backupAdminCommands } from './backup.ts'
import { bulkAdminCommands } from './bulk-operations.ts'
import { PING } from './call.ts'
import { certificateAdminCommands } from './certificates.ts'
import { checkAdminCommands } from './check.ts'
import { complaintAdminCommands } from './complaints.ts'
import { configAdminCommands } from './config.ts'
import { deadLetterAdminCommands } from './dead-letters.ts'
import { accountDeletionAdminCommands } from './delete-account.ts'
import { doctorAdminCommands } from './doctor.ts'
import { domainAdminCommands } from './domains.ts'
import { emailAdminCommands } from './emails.ts'
import { explainAdminCommands } from './explain.ts'
import { fenceAdminCommands } from './fence.ts'
import { inboundAdminCommands } from './inbound.ts'
import { listAdminCommands } from './lists.ts'
import { localServiceAdminCommands } from './local-service.ts'
import { mailAdminCommands } from './mail.ts'
import { masterKeyAdminCommands } from './master-keys.ts'
import { planAdminCommands } from './plan.ts'
import { providerAdminCommands } from './providers.ts'
import { queueAdminCommands } from './queue.ts'
import { reportAdminCommands } from './reports.ts'
import { retentionAdminCommands } from './retention.ts'
import { sendAdminCommands } from './send.ts'
import { suppressionAdminCommands } from './suppressions.ts'
import { templateAdminCommands } from './templates.ts'
import { userAdminCommands } from './users.ts'
import { webhookAdminCommands } from './webhooks.ts'

const ping = defineAdminCommand(PING, () => null)

/**
 * Each command has its own type of input. Inputs are not validated, because they come only from commands of the same
 * version.
 */
export const adminCommands: readonly AdminCommand<never, unknown>[] = [
  ping,
  ...accountAdminCommands,
  ...abuseAdminCommands,
  ...accountDeletionAdminCommands,
  ...masterKeyAdminCommands,
  ...userAdminCommands,
  ...domainAdminCommands,
  ...sendAdminCommands,
  ...emailAdminCommands,
  ...explainAdminCommands,
  ...deadLetterAdminCommands,
  ...queueAdminCommands,
  ...fenceAdminCommands,
  ...providerAdminCommands,
  ...suppressionAdminCommands,
  ...templateAdminCommands,
  ...webhookAdminCommands,
  ...complaintAdminCommands,
  ...bulkAdminCommands,
  ...listAdminCommands,
  ...inboundAdminCommands,
  ...mailAdminCommands,
  ...reportAdminCommands,
  ...certificateAdminCommands,
  ...retentionAdminCommands,
  ...planAdminCommands,
  ...configAdminCommands,
  ...checkAdminCommands,
  ...localServiceAdminCommands,
  ...doctorAdminCommands,
  ...backupAdminCommands,
]
