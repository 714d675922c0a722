/** @module Mail for the operator in wire form: for `tassis mail` and the operator's routes. */
import type { App } from '#features/core/app/app.ts'
import { type Parser, RawUnreadableError, removeAttachmentFiles } from '#features/receiving/inbound/process/parser.ts'
import { releaseBuffer } from '#features/receiving/inbound/process/store.ts'
import { findOperatorMail, type OperatorMail } from '#features/receiving/postmaster/store.ts'
import { MissingBlobError } from '#platform/content/read.ts'
import { isoTime } from '#platform/http/envelope.ts'
import { formatUuid } from '#platform/ids.ts'
import { KiB } from '#platform/units.ts'
import type { OperatorMailDetail, OperatorMailRecord } from './model.ts'

export const toMailView = (mail: OperatorMail): OperatorMailRecord => ({
  id: formatUuid(mail.uuid),
  kind: mail.kind,
  reason: mail.reason,
  mail_from: mail.mailFrom,
  rcpt_to: [...mail.rcptTo],
  from: mail.from,
  subject: mail.subject,
  source_ip: mail.sourceIp,
  size_bytes: mail.sizeBytes,
  received_at: isoTime(mail.createdAt),
})

/** What is shown of a message; its source may be as long as mail may be. */
const MAX_SHOWN_BYTES = 128 * KiB

/** A message with its text and the beginning of its source. Throws 404 for an unknown id. */
export async function readOperatorMail(app: App, parser: Parser, id: string): Promise<OperatorMailDetail> {
  const mail = findOperatorMail(app.db, id)
  const source = readSource(app, mail)
  return {
    ...toMailView(mail),
    text: source === null ? null : await readText(app, parser, mail),
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

/** The text of a message, parsed in a Worker; null when it has none or cannot be parsed. */
async function readText({ config, log }: App, parser: Parser, mail: OperatorMail): Promise<string | null> {
  const { mailFrom, sourceIp, rawRef, sizeBytes, createdAt: receivedAt } = mail
  try {
    const { hostname } = config
    const envelope = { mailFrom, sourceIp, rawRef, sizeBytes, receivedAt, helo: '', tls: null }
    const result = await parser.parse({ ...envelope, hostname, wantsReport: false })
    for (const { content } of result.message?.attachments ?? []) releaseBuffer(content)
    await removeAttachmentFiles(result)
    return result.message?.text?.slice(0, MAX_SHOWN_BYTES) ?? null
  } catch (error) {
    if (!(error instanceof RawUnreadableError)) log.warn({ err: error }, 'operator mail not parsed')
    return null
  }
}
