/** @module Sends notices that are due, without a loop, and reads the mail that the service sent to its users. */

import type { App } from '#features/core/app/app.ts'
import { NoticeQueues, type OwnerNotice } from '#features/core/notices/notices.ts'
import { createOwnerKind } from '#features/people/owner-notices/owner-notices.ts'

/** Returns the function that sends all notices of these kinds that are due; it remembers when accounts were mailed. */
export function createNoticeSender(app: App, ...notices: readonly OwnerNotice[]): () => Promise<void> {
  const queues = new NoticeQueues(
    app,
    notices.map((notice) => createOwnerKind(app, notice)),
  )
  return async () => {
    while ((await queues.step(new AbortController().signal)) <= app.clock.now());
  }
}

export interface ServiceMail {
  readonly from: string
  readonly to: string
  readonly subject: string
  readonly text: string
}

/** The mail that the service sent, oldest first. */
export const listServiceMail = ({ db, content }: App): ServiceMail[] =>
  db
    .query<{ from: string; to: string; subject: string; ref: number }, []>(
      `SELECT from_address AS "from", recipients.address AS "to", subject, text_ref AS ref FROM emails JOIN recipients ON email_id = emails.id
       WHERE extra LIKE '%"of_service":true%' ORDER BY emails.id`,
    )
    .all()
    .map(({ ref, ...mail }) => ({ ...mail, text: new TextDecoder().decode(content.get(ref)) }))
