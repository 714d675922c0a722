/**
 * @module Reads stored bodies for detail responses when some may be missing from the content store, after corruption or
 * a partial restore. Such a response states that content is missing, instead of failing.
 */

import { Type } from '@sinclair/typebox'
import { MissingBlobError } from '#platform/content/read.ts'
import { isDatabaseCorrupt } from '#platform/db/corruption.ts'
import { AppError } from '#platform/errors.ts'
import { streamDownload } from '#platform/http/download.ts'
import { yieldFairly } from '#platform/http/request-context.ts'
import { StringEnum } from '#platform/http/schemas.ts'
import type { App } from './app.ts'

/** Optional field for the schema of a detail response. */
export const ContentState = Type.Optional(
  StringEnum(['missing', 'hidden'], {
    description:
      'Present only when bodies are null for another reason than that there are none. `missing`: a stored body or attachment is missing or corrupt, until the operator restores it from a backup; `hidden`: your role does not show contents.',
  }),
)

/** The `content` field of a detail response; empty when nothing is missing. */
export const toContentState = (isMissing: boolean): { content?: 'missing' } => (isMissing ? { content: 'missing' } : {})

/** Reads the bodies of one record. `isMissing` is true as soon as a body was missing. */
export function createBodyReader(app: Pick<App, 'content'>) {
  let isMissing = false
  return {
    /** A body as text; null when there is none or it is missing. */
    read(ref: number | null): string | null {
      try {
        return ref === null ? null : new TextDecoder().decode(app.content.get(ref))
      } catch (error) {
        if (!(error instanceof MissingBlobError)) throw error
        isMissing = true
        return null
      }
    },
    /** Checks that blobs exist, without reading them. */
    check(refs: readonly (number | undefined)[]): void {
      isMissing ||= refs.some((ref) => ref !== undefined && !app.content.has(ref))
    },
    get isMissing(): boolean {
      return isMissing
    },
  }
}

/** Calls `read`; throws 410 when the blob that it reads is missing or corrupt. */
export function readStoredContent<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw toContentError(error)
  }
}

/** The 410 for a blob that is missing or corrupt; any other error as it is. */
const toContentError = (error: unknown): unknown =>
  error instanceof MissingBlobError || isDatabaseCorrupt(error) ? contentMissing(error) : error

/**
 * Reads a blob to its end before it is sent, so that the client of a damaged one gets an error instead of a broken
 * download. Throws as the reader does.
 */
export async function requireIntact(request: Request, chunks: Iterable<Uint8Array>): Promise<void> {
  for (const _ of chunks) await yieldFairly(request)
}

/** A response with a stored file, as a file to save. Rejects with a 410 like `readStoredContent`. */
export async function downloadStored(
  app: Pick<App, 'content' | 'clock' | 'memory' | 'log'>,
  request: Request,
  { ref, content_type: contentType, filename }: StoredFile,
): Promise<Response> {
  try {
    await requireIntact(request, app.content.chunks(ref))
    return streamDownload(app, request, () => app.content.chunks(ref), { contentType, filename })
  } catch (error) {
    throw toContentError(error)
  }
}

interface StoredFile {
  /** In the content store. */
  readonly ref: number
  readonly content_type: string
  readonly filename: string | null
}

export const contentMissing = (cause: unknown): AppError =>
  new AppError(
    410,
    'content_missing',
    'This content is missing or corrupt; ask the operator to restore it from a backup.',
    { cause },
  )
