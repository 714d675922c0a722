/** @module Builds the response to a send request, for a newly inserted email or a stored one. */
import type { Actor, App } from '#features/core/app/app.ts'
import { insertEmail, type Placement, type StoredContent } from '#features/sending/queue/insert.ts'
import { messageIdOf } from '#features/sending/queue/names.ts'
import { recipientKindCode, type Status, statusName } from '#features/sending/queue/status.ts'
import type { Tx } from '#platform/db/commit.ts'
import { prepareStatements } from '#platform/db/open.ts'
import { AppError } from '#platform/errors.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Millis } from '#platform/time/clock.ts'
import type { Draft } from './draft.ts'
import type { SendResponse } from './model.ts'

const sql = prepareStatements((db) => ({
  email: db.prepare<
    {
      uuid: Uint8Array
      from: string
      status: number
      sandbox: number
      scheduledAt: number | null
      createdAt: number
      messageId: string | null
    },
    [number]
  >(
    `SELECT uuid, from_address AS "from", status, sandbox, scheduled_at AS scheduledAt, created_at AS createdAt,
     extra ->> '$.message_id' AS messageId FROM emails WHERE id = ?`,
  ),
  toAddresses: db.prepare<{ address: string }, [number]>(
    `SELECT address FROM recipients WHERE email_id = ? AND kind = ${recipientKindCode('to')} ORDER BY id`,
  ),
}))

/** Reads the send response of a stored email. */
export function readSendResponse(app: Pick<App, 'db'>, emailId: number): SendResponse {
  const statements = sql(app.db)
  const email = statements.email.get(emailId)
  if (!email) throw new AppError(404, 'email_not_found', 'Email not found.')
  return toSendResponse({
    ...email,
    status: statusName(email.status),
    to: statements.toAddresses.all(emailId),
    sandbox: email.sandbox === 1,
  })
}

/** Inserts an email and returns its send response. Throws if its template was not rendered. */
export function insertDraft(
  app: App,
  tx: Tx,
  actor: Actor,
  draft: Draft,
  content: StoredContent,
  placement: Placement,
): SendResponse {
  if (draft.template) throw new Error('the template of an email was not rendered')
  return toSendResponse({
    ...insertEmail(app, tx, actor, draft, content, placement),
    from: draft.from,
    to: draft.recipients.filter(({ kind }) => kind === 'to'),
    scheduledAt: draft.scheduledAt ?? null,
    messageId: draft.extra.message_id ?? null,
  })
}

interface RespondedEmail {
  readonly uuid: Uint8Array
  readonly from: string
  readonly status: Status
  readonly to: readonly { readonly address: string }[]
  readonly sandbox: boolean
  readonly createdAt: Millis
  readonly scheduledAt: Millis | null
  /** Set by the client; null: derived. */
  readonly messageId: string | null
}

const toSendResponse = ({
  uuid,
  from,
  status,
  to,
  sandbox,
  createdAt,
  scheduledAt,
  messageId,
}: RespondedEmail): SendResponse => ({
  id: formatUuid(uuid),
  message_id: messageIdOf(uuid, from, messageId),
  status,
  to: to.map(({ address }) => address).join(', '),
  sandbox,
  created_at: isoTime(createdAt),
  ...(scheduledAt === null ? {} : { scheduled_at: isoTime(scheduledAt) }),
})
