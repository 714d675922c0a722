/** @module The answer to a send request, of a new email and of one that is stored: its id, its Message-ID, its status now. Writes nothing. */
import type { App } from '#features/core/app/app.ts'
import type { Millis } from '#platform/clock.ts'
import { prepared } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { domainOfMailbox } from '#protocols/address/parse.ts'
import type { SendResponse } from './model.ts'
import { recipientKindCode, type Status, statusName } from './status.ts'

const sql = prepared((db) => ({
  email: db.prepare<
    { uuid: Uint8Array; from: string; status: number; sandbox: number; scheduledAt: number | null; createdAt: number },
    [number]
  >(
    'SELECT uuid, from_address AS "from", status, sandbox, scheduled_at AS scheduledAt, created_at AS createdAt FROM emails WHERE id = ?',
  ),
  toAddresses: db.prepare<{ address: string }, [number]>(
    `SELECT address FROM recipients WHERE email_id = ? AND kind = ${recipientKindCode('to')} ORDER BY id`,
  ),
}))

/** The Message-ID of an email, with angle brackets; derived, so that it costs no column. RFC 5322 §3.6.4. */
export const messageIdOf = (uuid: Uint8Array, from: string): string => `<${formatUuid(uuid)}@${domainOfMailbox(from)}>`

/** The send response of a stored email. */
export function responseOf(app: Pick<App, 'db'>, emailId: number): SendResponse {
  const statements = sql(app.db)
  const email = statements.email.get(emailId)
  if (!email) throw new AppError(404, 'email_not_found', 'There is no email with this id.')
  return sendResponse({
    ...email,
    status: statusName(email.status),
    to: statements.toAddresses.all(emailId),
    sandbox: email.sandbox === 1,
  })
}

interface Answered {
  readonly uuid: Uint8Array
  readonly from: string
  readonly status: Status
  readonly to: readonly { readonly address: string }[]
  readonly sandbox: boolean
  readonly createdAt: Millis
  readonly scheduledAt: Millis | null
}

export const sendResponse = ({ uuid, from, status, to, sandbox, createdAt, scheduledAt }: Answered): SendResponse => ({
  id: formatUuid(uuid),
  message_id: messageIdOf(uuid, from),
  status,
  to: to.map(({ address }) => address).join(', '),
  sandbox,
  created_at: isoTime(createdAt),
  ...(scheduledAt === null ? {} : { scheduled_at: isoTime(scheduledAt) }),
})
