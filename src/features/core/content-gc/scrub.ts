/** @module Overwrites deleted data in the files. Erasures and deletions request it before they report completion. */
import type { App } from '#features/core/app/app.ts'
import { perOwner } from '#platform/per-owner.ts'
import { sweep } from './sweep.ts'

const getScrubState = perOwner(
  (_: App): { running?: Promise<boolean> | undefined; next?: Promise<boolean> | undefined } => ({}),
)

/**
 * Resolves with true once no database file contains data deleted before the call: unreferenced content is swept, free
 * pages are released, gaps in pages are zeroed, the WALs are empty. Resolves with false when content was reused within
 * the last minutes or a reader holds a database for long; the caller then tries again later. Concurrent calls share one
 * run that began after them.
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
  const stayingCount = await sweep(app)
  const isClean = await app.scrubFiles()
  return isClean && stayingCount === 0
}
