/** @module Reads mail for the operator: its text and the beginning of its source. */
import type { App } from '#features/core/app/app.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { type OperatorMailDetail, toMailView } from './model.ts'
import { findOperatorMail, type OperatorMail, readBeginning } from './store.ts'

/** What is shown of a message; its source may be as long as mail may be. */
const MAX_SHOWN_BYTES = 128 * KiB

/** The text of a message; null: it has none, or cannot be parsed. */
export type MailTextReader = (mail: OperatorMail) => Promise<string | null>

/** A message with its text and the beginning of its source. Throws 404 for an unknown id. */
export async function readOperatorMail(app: App, readText: MailTextReader, id: string): Promise<OperatorMailDetail> {
  const mail = findOperatorMail(app.db, id)
  const bytes = readBeginning(app, mail.rawRef, MAX_SHOWN_BYTES)
  if (!bytes) app.log.warn({ mail: formatUuid(mail.uuid) }, 'operator mail: raw message no longer stored')
  return {
    ...toMailView(mail),
    text: bytes ? ((await readText(mail))?.slice(0, MAX_SHOWN_BYTES) ?? null) : null,
    source: bytes ? new TextDecoder().decode(bytes) : null,
  }
}
