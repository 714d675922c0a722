/**
 * @module Makes what was deleted unreadable in the files as well: asked for by erasures and deletions before they say that they are complete.
 */
import type { App } from '#features/app.ts'

/**
 * Resolves once what was deleted before the call is in no file of the databases any more: unreferenced content is swept, free pages are given back, the gaps
 * of pages are zeroed, the WAL is empty. Calls at the same time share one run. Gives false when something (another reader of the files) keeps the WAL from
 * being emptied for minutes; the caller tries again later.
 */
export function requestScrub(_app: App): Promise<boolean> {
  throw new Error('not yet')
}
