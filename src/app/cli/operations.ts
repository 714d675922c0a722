/** @module Every operation that a command can ask of the owner of the data, in one table. */
import { abuseOperations } from './abuse.ts'
import { accountOperations } from './accounts.ts'
import { bulkOperations } from './bulk.ts'
import { PING } from './call.ts'
import { complaintOperations } from './complaints.ts'
import { configOperations } from './config.ts'
import { accountDeletionOperations } from './delete-account.ts'
import { domainOperations } from './domains.ts'
import { emailOperations } from './emails.ts'
import { inboundOperations } from './inbound.ts'
import { keyOperations } from './keys.ts'
import { listOperations } from './lists.ts'
import { mailOperations } from './mail.ts'
import { type Operation, operation } from './operation.ts'
import { planOperations } from './plan.ts'
import { queueOperations } from './queue.ts'
import { reportOperations } from './reports.ts'
import { retentionOperations } from './retention.ts'
import { sendOperations } from './send.ts'
import { suppressionOperations } from './suppressions.ts'
import { userOperations } from './users.ts'
import { webhookOperations } from './webhooks.ts'

const ping = operation(PING, () => null)

/** Inputs differ, and come from commands of the same version only; the caller hands on what it got. */
export const operations: readonly Operation<never, unknown>[] = [
  ping,
  ...accountOperations,
  ...abuseOperations,
  ...accountDeletionOperations,
  ...keyOperations,
  ...userOperations,
  ...domainOperations,
  ...sendOperations,
  ...emailOperations,
  ...queueOperations,
  ...suppressionOperations,
  ...webhookOperations,
  ...complaintOperations,
  ...bulkOperations,
  ...listOperations,
  ...inboundOperations,
  ...mailOperations,
  ...reportOperations,
  ...retentionOperations,
  ...planOperations,
  ...configOperations,
]
