/**
 * @module Makes what was deleted unreadable in the files as well: asked for by erasures and deletions before they say that they are complete.
 */
import type { App } from '#features/core/app/app.ts'
import { perOwner } from '#platform/per-owner.ts'
import { sweep } from './sweep.ts'

const getScrubState = perOwner(
  (_: App): { running?: Promise<boolean> | undefined; next?: Promise<boolean> | undefined } => ({}),
)

/**
 * Resolves with true once what was deleted before the call is in no file of the databases any more: unreferenced content is swept, free pages are given
 * back, the gaps of pages are zeroed, the WALs are empty. False when that is not so yet: content was given out again within the last minutes, or somebody
 * reads a database for long; the caller tries again later. Calls at the same time share one run that began after them.
 */
export function requestScrub(app: App): Promise<boolean> {
  const state = getScrubState(app)
  if (!state.running) return startScrub(app)
  state.next ??= state.running.catch(() => false).then(() => startScrub(app))
  return state.next
}

function startScrub(app: App): Promise<boolean> {
  const state = getScrubState(app)
  state.next = undefined
  state.running = scrub(app).finally(() => {
    state.running = undefined
  })
  return state.running
}

async function scrub(app: App): Promise<boolean> {
  const left = await sweep(app)
  const isClean = await app.scrubFiles()
  return isClean && left === 0
}
