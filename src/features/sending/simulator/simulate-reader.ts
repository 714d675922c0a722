/**
 * @module What the reader of a mailbox of the simulator does once a message is delivered: opens, clicks, complains.
 * Writes the events in the transaction of the delivery. The events have no effect on reputation: no complaint is
 * stored, and no address is suppressed.
 */
import type { App } from '#features/core/app/app.ts'
import { recordEngaged } from '#features/sending/queue/settle.ts'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import { accountTag, dayOf } from '#features/sending/tracking/tokens.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import { findMailbox } from './mailboxes.ts'

interface DeliveredRecipient {
  readonly accountId: number
  readonly accountUuid: UuidBytes
  readonly address: string
  readonly createdAt: Millis
  readonly sandbox: number
}

const sql = prepareStatements((db) => ({
  recipient: db.prepare<DeliveredRecipient, [number]>(
    `SELECT account_id AS accountId, accounts.uuid AS accountUuid, address, emails.created_at AS createdAt, sandbox
     FROM recipients JOIN emails ON emails.id = email_id JOIN accounts ON accounts.id = account_id WHERE recipients.id = ?`,
  ),
}))

const USER_AGENT = 'Tassis simulator'

/** Records the events of the reader of a recipient whose message was delivered to the simulator. */
export function simulateReader(
  app: Pick<App, 'config' | 'eventTime'>,
  tx: Tx,
  { recipientId, emailId }: { readonly recipientId: number; readonly emailId: number },
): void {
  const recipient = sql(tx.db).recipient.get(recipientId)
  // Mail of the service itself is no sandbox mail, and its readers must not change the operator's statistics.
  if (!recipient || recipient.sandbox === 0) return
  const { accountId, accountUuid, address, createdAt } = recipient
  for (const action of findMailbox(address)?.mailbox.reader ?? []) {
    if (action === 'complain')
      recordEngaged(tx, {
        accountId,
        type: 'complained',
        at: app.eventTime(),
        emailId,
        recipientId,
        data: { complainer: address, feedback_type: 'abuse' },
      })
    else
      recordEngagement(app, tx, {
        recipient: { recipientId, account: accountTag(accountUuid), day: dayOf(createdAt) },
        url: action === 'click' ? app.config.publicUrl : undefined,
        visitor: 'human',
        ipAddress: '127.0.0.1',
        userAgent: USER_AGENT,
      })
  }
}
