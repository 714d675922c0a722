/**
 * @module Makes what was deleted unreadable in the files as well: asked for by erasures and deletions before they say that they are complete.
 */
import type { App } from '#features/core/app/app.ts'
import { sweep } from './sweep.ts'

const running = new WeakMap<App, Promise<boolean>>()
const waiting = new WeakMap<App, Promise<boolean>>()

/**
 * Resolves with true once what was deleted before the call is in no file of the databases any more: unreferenced content is swept, free pages are given
 * back, the gaps of pages are zeroed, the WALs are empty. False when that is not so yet: content was given out again within the last minutes, or somebody
 * reads a database for long; the caller tries again later. Calls at the same time share one run that began after them.
 */
export function requestScrub(app: App): Promise<boolean> {
  const current = running.get(app)
  if (!current) return begin(app)
  const next = waiting.get(app) ?? current.catch(() => false).then(() => begin(app))
  waiting.set(app, next)
  return next
}

function begin(app: App): Promise<boolean> {
  waiting.delete(app)
  const run = scrub(app).finally(() => running.delete(app))
  running.set(app, run)
  return run
}

async function scrub(app: App): Promise<boolean> {
  const left = await sweep(app)
  const isClean = await app.scrubFiles()
  return isClean && left === 0
}
