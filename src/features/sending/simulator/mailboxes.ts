/**
 * @module The mailboxes of the simulator, `sim.{hostname}`: what happens to mail to each of them, and what its reader does
 * once a message is delivered: opens, clicks, complains. Without a code in its address, no mailbox makes us back off from
 * the simulator, which would delay mail to the other mailboxes. Writes the events of readers in the transaction of the
 * delivery. The events have no effect on reputation: no complaint is stored, and no address is suppressed.
 */
import type { App } from '#features/core/app/app.ts'
import { recordEngaged } from '#features/sending/queue/settle.ts'
import { recordEngagement } from '#features/sending/tracking/engage.ts'
import { accountTag, dayOf } from '#features/sending/tracking/tokens.ts'
import { prepareStatements, type Tx } from '#platform/db/open.ts'
import type { UuidBytes } from '#platform/ids.ts'
import type { Millis } from '#platform/units.ts'

interface Mailbox {
  /** The reply to RCPT: code and text, which begins with the enhanced status code; undefined: it is accepted. */
  readonly reject?: (enhanced: string, attempt: number) => readonly [code: number, text: string] | undefined
  /** What its reader does once a message is delivered. */
  readonly reader?: readonly ('open' | 'click' | 'complain')[]
  /** Class of the enhanced status code that the address may name after a plus sign. */
  readonly codeClass?: '4' | '5'
  /** Whether the server answers slowly. */
  readonly isSlow?: true
  /** Whether it closes the connection after the final dot without a reply. */
  readonly drops?: true
}

const MAILBOXES: Readonly<Record<string, Mailbox>> = {
  deliver: {},
  open: { reader: ['open'] },
  click: { reader: ['open', 'click'] },
  complain: { reader: ['complain'] },
  bounce: { codeClass: '5', reject: (enhanced) => [550, `${enhanced || '5.1.1'} Simulated rejection`] },
  defer: { codeClass: '4', reject: (enhanced) => [451, `${enhanced || '4.3.0'} Simulated deferral`] },
  greylist: {
    reject: (_, attempt) => (attempt === 1 ? [451, '4.7.1 Simulated greylisting, please try again later'] : undefined),
  },
  slow: { isSlow: true },
  'drop-after-dot': { drops: true },
}

const ADDRESS = /^([a-z-]+)(?:\+([45])\.(\d{1,3})\.(\d{1,3}))?$/

/** The mailbox of an address, in any case, and the enhanced status code that it names; undefined if there is none. */
export function findMailbox(address: string): { readonly mailbox: Mailbox; readonly enhanced: string } | undefined {
  const localPart = address.slice(0, address.lastIndexOf('@')).toLowerCase()
  const [, name = '', codeClass, subject, detail] = ADDRESS.exec(localPart) ?? []
  const mailbox = Object.hasOwn(MAILBOXES, name) ? MAILBOXES[name] : undefined
  if (!mailbox || (codeClass !== undefined && codeClass !== mailbox.codeClass)) return undefined
  return { mailbox, enhanced: codeClass === undefined ? '' : `${codeClass}.${Number(subject)}.${Number(detail)}` }
}

/** In angle brackets: our classification of replies takes the names for words otherwise. */
export function formatUnknownMailbox(domain: string): string {
  const addresses = Object.entries(MAILBOXES).map(
    ([name, { codeClass }]) => `<${name}${codeClass === undefined ? '' : `+${codeClass}.x.y`}@${domain}>`,
  )
  return `5.1.1 User unknown; the simulator has these mailboxes: ${addresses.join(' ')} The code after the plus sign may be left out.`
}

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
