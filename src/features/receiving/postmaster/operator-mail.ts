/** @module Reads mail for the operator: its text and the beginning of its source. */
import type { App } from '#features/core/app/app.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import { type OperatorMailDetail, toMailView } from './model.ts'
import { findOperatorMail, type OperatorMail } from './store.ts'

/** What is shown of a message; its source may be as long as mail may be. */
const MAX_SHOWN_BYTES = 128 * KiB

/** The text of a message; null: it has none, or cannot be parsed. */
export type MailTextReader = (mail: OperatorMail) => Promise<string | null>

/** A message with its text and the beginning of its source. Throws 404 for an unknown id. */
export async function readOperatorMail(app: App, readText: MailTextReader, id: string): Promise<OperatorMailDetail> {
  const mail = findOperatorMail(app.db, id)
  const source = readSource(app, mail)
  return {
    ...toMailView(mail),
    text: source === null ? null : ((await readText(mail))?.slice(0, MAX_SHOWN_BYTES) ?? null),
    source,
  }
}

/** The first part of the raw message; null if it is no longer stored. */
function readSource(app: App, { rawRef, uuid }: OperatorMail): string | null {
  try {
    const chunks: Uint8Array[] = []
    let size = 0
    for (const bytes of app.rawMail.chunks(rawRef)) {
      chunks.push(bytes)
      size += bytes.length
      if (size >= MAX_SHOWN_BYTES) break
    }
    return new TextDecoder().decode(Buffer.concat(chunks).subarray(0, MAX_SHOWN_BYTES))
  } catch (error) {
    if (!(error instanceof MissingBlobError)) throw error
    app.log.warn({ err: error, mail: formatUuid(uuid) }, 'cannot read operator mail')
    return null
  }
}
