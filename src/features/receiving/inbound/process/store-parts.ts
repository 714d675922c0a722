/**
 * @module Stores the parts of a parsed message as blobs, for the rows that will refer to them, and frees their memory.
 */
import type { App } from '#features/core/app/app.ts'
import type { StoredMessage } from '#features/receiving/received/message.ts'
import { KiB, MiB } from '#platform/units.ts'
import type { AggregateReport } from '#protocols/aggregate-reports/report.ts'
import type { AttachmentFile, ParsedMessage } from '#protocols/mime/parsed.ts'

/** The message got its 250, so storing it may use the disk reserve. */
const FROM_RESERVE = { mayUseReserve: true }

type ContentApp = Pick<App, 'content' | 'clock'>

/** Octets that are stored in one batch. */
const BATCH_BYTES = 1 * MiB

/**
 * The message with its parts stored as blobs; mail to our own addresses (reports, bounces) needs none.
 * @param isForTenants whether a destination is a tenant's domain
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
  // The references come in the order of the texts; an absent text has none.
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

/** Stores all parts and returns their references in order. Batches limit both memory and the time without yielding. */
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

/** Stores the content of an aggregate report. */
export async function storeReportContent(
  app: ContentApp,
  report: AggregateReport,
): Promise<AggregateReport & { contentRef: number }> {
  const [contentRef] = await app.content.put([report.content], app.clock.now(), FROM_RESERVE)
  if (contentRef === undefined) throw new Error('a report was not stored')
  return { ...report, contentRef }
}

/** Smaller buffers are left to the garbage collector. */
const MIN_RELEASED_BYTES = 16 * KiB

/**
 * Frees the memory of an attachment immediately: the collector ignores the size of buffers and would free it much
 * later.
 */
export function releaseBuffer({ buffer, length }: Uint8Array): void {
  if (length >= MIN_RELEASED_BYTES && buffer instanceof ArrayBuffer && buffer.byteLength === length) buffer.transfer(0)
}
