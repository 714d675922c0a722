/**
 * @module Stored bodies as details show them, where some of them may be gone from the content store: after damage, or a backup that was put back in part.
 * Then the record is still worth an answer, which says so.
 */

import { Type } from '@sinclair/typebox'
import { MissingBlobError } from '#platform/content/read.ts'
import { isDatabaseCorrupt } from '#platform/db/corruption.ts'
import { AppError } from '#platform/errors.ts'
import { StringEnum } from '#platform/http/schemas.ts'
import type { App } from './app.ts'

/** For the model of a detail. */
export const ContentState = Type.Optional(
  StringEnum(['missing'], {
    description:
      'Only where a stored body or attachment is missing or damaged: then that body is null. It is back once the operator has put it back from a backup.',
  }),
)

/** For a detail: says that something is missing, or nothing. */
export const toContentState = (isMissing: boolean): { content?: 'missing' } => (isMissing ? { content: 'missing' } : {})

/** Reads the bodies of one record, and remembers whether one was missing. */
export function createBodyReader(app: Pick<App, 'content'>): {
  /** A body as text; null: there is none, or it is missing. */
  read(ref: number | null): string | null
  /** Looks whether parts are there, without reading them. */
  check(refs: readonly (number | undefined)[]): void
  readonly isMissing: boolean
} {
  let isMissing = false
  return {
    read(ref) {
      try {
        return ref === null ? null : new TextDecoder().decode(app.content.get(ref))
      } catch (error) {
        if (!(error instanceof MissingBlobError)) throw error
        isMissing = true
        return null
      }
    },
    check(refs) {
      isMissing ||= refs.some((ref) => ref !== undefined && !app.content.has(ref))
    },
    get isMissing() {
      return isMissing
    },
  }
}

/** Runs what reads a stored part; throws 410 when that is missing or damaged. */
export function readStoredContent<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof MissingBlobError || isDatabaseCorrupt(error))) throw error
    throw contentMissing(error)
  }
}

export const contentMissing = (cause: unknown): AppError =>
  new AppError(
    410,
    'content_missing',
    'This content is no longer stored, or is damaged; ask the operator to put it back from a backup.',
    { cause },
  )
