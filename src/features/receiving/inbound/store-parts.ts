/**
 * @module Puts the parts of a parsed message into the content store, for the rows that will refer to them, and frees
 * the memory that they took.
 */
import type { App } from '#features/core/app/app.ts'
import type { StoredMessage } from '#features/receiving/received/message.ts'
import { KiB, MiB } from '#platform/units.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import type { AttachmentFile, ParsedMessage } from '#protocols/mime/parsed.ts'

/** The message was answered with 250. */
const FROM_RESERVE = { mayUseReserve: true }

type ContentApp = Pick<App, 'content' | 'clock'>

/** Octets of parts that are stored at once. */
const BATCH_BYTES = 1 * MiB

/**
 * The message with its parts in the content store, of which a domain of ours (reports, bounces) needs none.
 * @param isForTenants whether one of the destinations is a tenant's domain
 */
export async function storeParts(
  app: ContentApp,
  message: ParsedMessage,
  strippedText: string | null,
  isForTenants: boolean,
): Promise<StoredMessage> {
  const { attachments, ...rest } = message
  if (!isForTenants)
    return {
      ...rest,
      headersRef: null,
      textRef: null,
      htmlRef: null,
      strippedText,
      strippedRef: null,
      attachments: [],
    }
  const texts = [JSON.stringify(message.headers), message.text, message.html, strippedText]
  const parts = [
    ...texts.filter((text) => text !== null).map((text) => Buffer.from(text)),
    ...attachments.map(({ content, file }) => file ?? content),
  ]
  const refs = await storeInBatches(app, parts)
  // In the order of the parts, none for those that there are not.
  const [headersRef = null, textRef = null, htmlRef = null, strippedRef = null] = texts.map((text) =>
    text === null ? null : (refs.shift() ?? null),
  )
  return {
    ...rest,
    headersRef,
    textRef,
    htmlRef,
    strippedText,
    strippedRef,
    attachments: attachments.map(({ content, file, ...attachment }, index) => {
      const ref = refs[index]
      if (ref === undefined) throw new Error('an attachment was not stored')
      return { ...attachment, sizeBytes: file?.sizeBytes ?? content.length, ref }
    }),
  }
}

/**
 * The references of all parts, in order. In groups, so that neither memory nor the time without a turn for others grows
 * with their number.
 */
async function storeInBatches(
  { content, clock }: ContentApp,
  parts: readonly (Uint8Array | AttachmentFile)[],
): Promise<number[]> {
  const refs: number[] = []
  let batch: Uint8Array[] = []
  let batchBytes = 0
  const storeBatch = async (): Promise<void> => {
    if (batch.length > 0) refs.push(...(await content.put(batch, clock.now(), FROM_RESERVE)))
    batch = []
    batchBytes = 0
  }
  for (const part of parts) {
    if (part instanceof Uint8Array) {
      batch.push(part)
      batchBytes += part.length
      if (batchBytes >= BATCH_BYTES) await storeBatch()
    } else {
      await storeBatch()
      refs.push(await content.adopt(part, clock.now(), FROM_RESERVE))
    }
  }
  await storeBatch()
  return refs
}

/** An aggregate report with its content in the content store. */
export async function storeReportContent(
  app: ContentApp,
  report: AggregateReport,
): Promise<AggregateReport & { contentRef: number }> {
  const [contentRef] = await app.content.put([report.content], app.clock.now(), FROM_RESERVE)
  if (contentRef === undefined) throw new Error('a report was not stored')
  return { ...report, contentRef }
}

/** Small ones are left to the collector. */
const MIN_RELEASED_BYTES = 16 * KiB

/**
 * Gives the memory of an attachment back now: the collector, for which a buffer is a small thing, comes to it much
 * later.
 */
export function releaseBuffer({ buffer, length }: Uint8Array): void {
  if (length >= MIN_RELEASED_BYTES && buffer instanceof ArrayBuffer && buffer.byteLength === length) buffer.transfer(0)
}
