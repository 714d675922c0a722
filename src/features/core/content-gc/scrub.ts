/** @module Overwrites deleted data in the files. Erasures and deletions request it before they report completion. */
import type { App } from '#features/core/app/app.ts'
import { sweep } from './sweep.ts'

/**
 * Resolves with true once no database file contains data deleted before the call: unreferenced content is swept, free
 * pages are released, gaps in pages are zeroed, the WALs are empty. Resolves with false when content was reused within
 * the last minutes or a reader holds a database for long; the caller then tries again later.
 */
export async function requestScrub(app: App): Promise<boolean> {
  const stayingCount = await sweep(app)
  const isClean = await app.scrubFiles()
  return isClean && stayingCount === 0
}
